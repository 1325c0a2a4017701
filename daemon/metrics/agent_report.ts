/** Requests the state of a data folder's agent. An agent that is missing, hangs or sends nonsense counts as absent. */
import { statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { AGENT_SOCKET, type AgentReport } from '../../bpf/schema/agent_report.ts';
import { ANSWER_TIMEOUT_MS, askSocket, count, durations } from './asked_socket.ts';

/** Validates only the fields that are used, because a newer agent may report more fields. */
const agentReport: z.ZodType<AgentReport> = z.object({
  node: z.string(),
  start_time_seconds: count,
  cpu_seconds: count,
  resident_bytes: count,
  failure: z.string().nullable().optional(),
  unsynced_seconds: count.optional(),
  ring: z.object({ count, size_bytes: count, pending_bytes: count, peak_bytes: count }),
  recorded: z.record(z.string(), count),
  lost: z.array(z.object({ cause: z.string(), event_type: z.string().nullable(), count })),
  commits: durations,
});

/** Returns the path of the agent's socket; `data` is the data folder, or the recording in it. */
export function findAgentSocket(data: string): string {
  const isFile = statSync(data, { throwIfNoEntry: false })?.isFile() === true;
  return join(isFile ? dirname(data) : data, AGENT_SOCKET);
}

/** Returns `silent` if the agent exists but does not answer; undefined if there is no agent or access is denied. */
export function askAgent(path: string, timeoutMs = ANSWER_TIMEOUT_MS): Promise<AgentReport | 'silent' | undefined> {
  return askSocket(path, agentReport, timeoutMs);
}

export async function readAgentReport(path: string): Promise<AgentReport | undefined> {
  const answer = await askAgent(path);
  return answer === 'silent' ? undefined : answer;
}
