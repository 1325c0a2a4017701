/** Finds one event by its id: its segment gives the time, by which the table of events is sorted. */
import { and, columns, sql } from '../../../agent/clickhouse/statements/sql.ts';
import { parseEventId } from '../../../agent/recording/format/event_id.ts';
import type { ApiEvent } from '../../../bpf/schema/api.ts';
import { eventsOf } from '../blocks/event.ts';
import { answerBlocks } from './answer_blocks.ts';
import { type Fleet, readRows, tableOf } from './fleet.ts';
import { timeCondition, totalOrder } from './scan.ts';

export async function foundEvent(fleet: Fleet, eventId: string): Promise<ApiEvent | undefined> {
  const id = parseEventId(eventId);
  if (!id) return undefined;
  const recording = sql`recording = ${BigInt(`0x${id.recordingId}`)}`;
  const segments = sql`SELECT t_min, t_max FROM ${tableOf(fleet, 'segment')}
WHERE ${recording} AND first_number <= ${id.number} AND end_number > ${id.number} LIMIT 1`;
  const [segment] = await readRows(fleet, segments);
  if (!segment) return undefined;
  const times = timeCondition(fleet, { firstNs: segment.t_min as bigint, lastNs: segment.t_max as bigint });
  const blocks = answerBlocks();
  const statement = sql`SELECT ${columns(blocks.selected)} FROM ${tableOf(fleet, 'event')}
WHERE ${and([times, recording, sql`number = ${id.number}`])} ORDER BY ${totalOrder('asc')} LIMIT 1`;
  for await (const decoded of fleet.connection.select(statement, { whole: true }))
    for (const scanned of blocks.read(decoded, 1)) return eventsOf(scanned)[0];
  return undefined;
}
