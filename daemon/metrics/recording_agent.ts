/** Determines the state of a recording's agent from the recording, its lock, and the agent's own answer. */

import type { AgentReport } from '../../bpf/schema/agent_report.ts';
import type { AGENT_STATES } from '../contract/words.ts';
import type { RecordingState } from '../store/store.ts';
import { isSilent } from '../store/written_span.ts';

export interface RecordingAgent {
  state: (typeof AGENT_STATES)[number];
  /** Time until which an agent is known to have recorded. */
  aliveNs: bigint | null;
}

/**
 * Returns the state of a recording's agent. `answer` is the report of the data folder's agent, if a report was
 * requested.
 */
export function describeAgent(
  { lastWriter, source }: RecordingState,
  nowNs: bigint,
  answer?: AgentReport | 'silent',
): RecordingAgent {
  if (!lastWriter) return { state: 'none', aliveNs: null };
  const aliveNs = lastWriter.toNs;
  if (lastWriter.end === 'closed') return { state: 'stopped', aliveNs };
  if (lastWriter.end === 'killed') return { state: 'killed', aliveNs };
  if (source === 'live' && answer !== 'silent' && answer?.failure) return { state: 'failing', aliveNs };
  return { state: answer === 'silent' || isSilent(lastWriter, nowNs) ? 'silent' : 'recording', aliveNs };
}
