/** Rows of blocks, each with its place in the total order and its JSON. */
import { parseEventId } from '../../base/event_id.ts';
import { keyOf } from '../blocks/event.ts';
import { rowsAsJson } from '../blocks/event_json.ts';
import type { ScannedBlock } from '../blocks/scanned_block.ts';
import type { RowKey } from './answer_blocks.ts';

export interface FollowedRow {
  key: RowKey;
  json(): string;
}

export function* rowsOf(scanned: ScannedBlock): Generator<FollowedRow> {
  const { rowCount } = scanned.block;
  if (rowCount === 0) return;
  const { bytes, ends } = rowsAsJson(scanned);
  for (let row = 0; row < rowCount; row++) {
    const { timestamp_ns: timestampNs, event_id } = keyOf(scanned, row);
    const { recordingId, number } = parseEventId(event_id)!;
    const key = { timestampNs, recording: BigInt(`0x${recordingId}`), number };
    yield { key, json: () => bytes.toString('utf8', row === 0 ? 0 : ends[row - 1], ends[row]) };
  }
}
