/** Finds one event by its id: its segment gives the time, by which the table of events is sorted. */
import { sql } from '../../../agent/clickhouse/statements/sql.ts';
import type { ApiEvent } from '../../../bpf/schema/api.ts';
import { parseEventId } from '../../base/event_id.ts';
import { eventsOf } from '../blocks/event.ts';
import { answerBlocks } from './answer_blocks.ts';
import { eventStatement, pinnedStatement } from './event_statement.ts';
import { type Fleet, readRows, tableOf } from './fleet.ts';

export async function foundEvent(fleet: Fleet, eventId: string): Promise<ApiEvent | undefined> {
  const id = parseEventId(eventId);
  if (!id) return undefined;
  const recording = sql`recording = ${BigInt(`0x${id.recordingId}`)}`;
  const segments = sql`SELECT t_min, t_max FROM ${tableOf(fleet, 'segment')}
WHERE ${recording} AND first_number <= ${id.number} AND end_number > ${id.number} LIMIT 1`;
  const [segment] = await readRows(fleet, segments, { t_min: 'number', t_max: 'number' });
  const own = [recording, sql`number = ${id.number}`];
  const blocks = answerBlocks();
  const asked = { selected: blocks.selected, conditions: own, order: 'asc', rowsMax: 1 } as const;
  const times = segment && { firstNs: segment.t_min, lastNs: segment.t_max };
  const statements = [
    ...(times ? [eventStatement(fleet, { ...asked, times }, false)] : []),
    // What is pinned has no segment, and is little: no time is needed.
    ...((await fleet.oldestNs()) > (times?.firstNs ?? 0n) ? [pinnedStatement(fleet, asked)] : []),
  ];
  for (const statement of statements)
    for await (const decoded of fleet.connection.select(statement, { whole: true }))
      for (const scanned of blocks.read(decoded, 1)) return eventsOf(scanned)[0];
  return undefined;
}
