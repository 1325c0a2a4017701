/** Asks the agent of a data folder for its state. An agent that is missing, hangs or sends nonsense counts as none. */
import { statSync } from 'node:fs';
import { connect } from 'node:net';
import { dirname, join } from 'node:path';
import { z } from 'zod';
import { AGENT_SOCKET, type AgentReport } from '../../bpf/schema/agent_report.ts';

const ANSWER_TIMEOUT_MS = 1000;
const ANSWER_BYTES_MAX = 64 * 1024;

const count = z.number().nonnegative();

/** Validates only the fields that are used: a newer agent may report more. */
const agentReport: z.ZodType<AgentReport> = z.object({
  node: z.string(),
  start_time_seconds: count,
  cpu_seconds: count,
  resident_bytes: count,
  failure: z.string().nullable().optional(),
  ring: z.object({ size_bytes: count, pending_bytes: count, peak_bytes: count }),
  recorded: z.record(z.string(), count),
  lost: z.array(z.object({ cause: z.string(), event_type: z.string().nullable(), count })),
  commits: z
    .object({ bounds_seconds: z.array(count), counts: z.array(count), sum_seconds: count })
    .refine(({ bounds_seconds, counts }) => counts.length === bounds_seconds.length + 1),
});

/** `data` is the folder, or the recording in it. */
export function agentSocketIn(data: string): string {
  const isFile = statSync(data, { throwIfNoEntry: false })?.isFile() === true;
  return join(isFile ? dirname(data) : data, AGENT_SOCKET);
}

/** Returns `silent` if the agent exists but does not answer, undefined if there is none or access is denied. */
export async function askAgent(
  path: string,
  timeoutMs = ANSWER_TIMEOUT_MS,
): Promise<AgentReport | 'silent' | undefined> {
  try {
    return agentReport.parse(JSON.parse(await answerOf(path, timeoutMs)));
  } catch (error) {
    return error instanceof NoAnswer ? 'silent' : undefined;
  }
}

export async function readAgentReport(path: string): Promise<AgentReport | undefined> {
  const answer = await askAgent(path);
  return answer === 'silent' ? undefined : answer;
}

class NoAnswer extends Error {}

async function answerOf(path: string, timeoutMs: number): Promise<string> {
  const socket = connect(path);
  const timer = setTimeout(() => socket.destroy(new NoAnswer()), timeoutMs);
  try {
    let text = '';
    for await (const piece of socket.setEncoding('utf8')) {
      text += piece;
      if (text.length > ANSWER_BYTES_MAX) throw new Error('too much of an answer');
    }
    return text;
  } finally {
    clearTimeout(timer);
    socket.destroy();
  }
}
