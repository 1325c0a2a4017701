/**
 * Health checks for supervisors and load balancers: whether the daemon is alive, and whether it can read its
 * recordings.
 */
import { Router } from 'express';
import type { z } from 'zod';
import type { AgentReport } from '../../../bpf/schema/agent_report.ts';
import type { healthResponse, readyResponse } from '../../contract/answers.ts';
import { noParameters } from '../../contract/parameters.ts';
import { parseQuery } from '../../contract/query_string.ts';
import { askAgent, findAgentSocket } from '../../metrics/agent_report.ts';
import { describeAgent } from '../../metrics/recording_agent.ts';
import type { Sessions } from '../../replay/session/sessions.ts';
import type { RecordingState, Store } from '../../store/store.ts';
import { refuseOtherMethods } from '../problem_handler.ts';
import { sendJson } from '../send_json.ts';

const NS_PER_MS = 1_000_000n;
/** Maximum time to wait for the agent. An agent that does not answer in time does not record either. */
const AGENT_PATIENCE_MS = 500;

export const healthQuery = noParameters;

export interface HealthOptions {
  store: Store;
  sessions: Pick<Sessions, 'keeping'>;
  /** Wall clock in nanoseconds since the epoch. */
  now: () => bigint;
  /** The path served by --data. The agent that records into this path is asked for its state. */
  data?: string | undefined;
}

export function createHealthRoutes({ store, sessions, now, data }: HealthOptions): Router {
  const router = Router();
  router
    .route('/healthz')
    .get((req, res) => {
      parseQuery(req.query, healthQuery);
      sendJson(res, 200, { status: 'ok' } satisfies z.infer<typeof healthResponse>);
    })
    .all(refuseOtherMethods('GET', 'HEAD'));
  router
    .route('/readyz')
    .get(async (req, res) => {
      parseQuery(req.query, healthQuery);
      const answer = data === undefined ? undefined : await askAgent(findAgentSocket(data), AGENT_PATIENCE_MS);
      const fleet = store.fleet ? { nodes: (await store.fleet.countNodes()).counts } : null;
      const nowNs = now();
      // A recording without a running agent can still be queried, so a stopped agent does not make the daemon unready.
      const states = await store.listRecordingStates();
      const recordings = states.map((state) => describeReadiness(state, nowNs, answer));
      const unreadable = (await store.listUnreadable()).map(({ path, code, reason }) => ({ file: path, code, reason }));
      const answered = { status: 'ready' as const, recordings, unreadable, fleet, sessions: sessions.keeping };
      sendJson(res, 200, answered satisfies z.infer<typeof readyResponse>);
    })
    .all(refuseOtherMethods('GET', 'HEAD'));
  return router;
}

function describeReadiness(recording: RecordingState, nowNs: bigint, answer: AgentReport | 'silent' | undefined) {
  const { recordingId, node, source, lost } = recording;
  const { state, aliveNs } = describeAgent(recording, nowNs, answer);
  return {
    recording_id: recordingId,
    node,
    source,
    damaged: lost.some(({ cause }) => cause === 'damaged'),
    agent: { state, alive_at: aliveNs === null ? null : new Date(Number(aliveNs / NS_PER_MS)).toISOString() },
  };
}
