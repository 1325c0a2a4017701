/** What is in progress on a node, as a text in its row of a fleet's table: JSON, with times as texts of all digits. */
import { z } from 'zod';
import { EVENT_TYPES } from '../../bpf/schema/index.ts';
import type { Unended } from '../recording/read/unended.ts';

/** A server's row that is longer is no work of a shipper. */
const TEXT_MAX = 4_000_000;

const time = z
  .string()
  .regex(/^\d{1,20}$/)
  .transform(BigInt);
const owner = { service_name: z.string(), transaction_id: z.string().nullable(), trace_id: z.string().nullable() };
const event = z.object({
  ...owner,
  event_type: z.enum(EVENT_TYPES),
  timestamp_ns: time,
  pid: z.int(),
  tid: z.int(),
  comm: z.string(),
  syscall: z.string().optional(),
  file: z.string().nullable().optional(),
  operation: z.string().optional(),
  device: z.string().optional(),
  origins: z.array(z.object(owner)),
});
const schema = z.object({
  events: z.array(event),
  lost: z.array(event),
  unlisted: z.object({ count: z.int().nonnegative(), sinceNs: time }),
});

/** Returns '' if nothing is in progress. */
export function unendedText({ events, lost, unlisted }: Unended): string {
  if (events.length === 0 && lost.length === 0 && unlisted.count === 0) return '';
  return JSON.stringify({ events, lost, unlisted }, (_, value) => (typeof value === 'bigint' ? String(value) : value));
}

/** Returns undefined for a text that no shipper has written. */
export function parseUnended(text: string): Unended | undefined {
  if (text === '') return { events: [], lost: [], unlisted: { count: 0, sinceNs: 0n } };
  if (text.length > TEXT_MAX) return undefined;
  try {
    return schema.parse(JSON.parse(text)) as Unended;
  } catch {
    return undefined;
  }
}
