/** Requests the report of a service on this host, over the service's socket for reports. */
import { connect } from 'node:net';
import { z } from 'zod';

export const ANSWER_TIMEOUT_MS = 1000;
const ANSWER_BYTES_MAX = 64 * 1024;

export const count = z.number().nonnegative();

/** A histogram that the service has counted. */
export const durations = z
  .object({ bounds_seconds: z.array(count), counts: z.array(count), sum_seconds: count })
  .refine(({ bounds_seconds, counts }) => counts.length === bounds_seconds.length + 1);

export type AskedDurations = z.infer<typeof durations>;

/** Returns `silent` if the service exists but does not answer; undefined if there is no service or access is denied. */
export async function askSocket<Report>(
  path: string,
  schema: z.ZodType<Report>,
  timeoutMs = ANSWER_TIMEOUT_MS,
): Promise<Report | 'silent' | undefined> {
  try {
    return schema.parse(JSON.parse(await readAnswer(path, timeoutMs)));
  } catch (error) {
    return error instanceof NoAnswer ? 'silent' : undefined;
  }
}

class NoAnswer extends Error {}

async function readAnswer(path: string, timeoutMs: number): Promise<string> {
  const socket = connect(path);
  const timer = setTimeout(() => socket.destroy(new NoAnswer()), timeoutMs);
  try {
    let text = '';
    for await (const chunk of socket.setEncoding('utf8')) {
      text += chunk;
      if (text.length > ANSWER_BYTES_MAX) throw new Error('too much of an answer');
    }
    return text;
  } finally {
    clearTimeout(timer);
    socket.destroy();
  }
}
