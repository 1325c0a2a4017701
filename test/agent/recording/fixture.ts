/** Makes blocks and recordings for tests: only the relevant columns are given, the rest are zero. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openWriter, type RecordingWriter } from '../../../agent/recording/write/writer.ts';
import { type Block, createBlock, type NumberedBlock, typeRows } from '../../../bpf/schema/block.ts';
import { COLUMNS } from '../../../bpf/schema/columns.ts';
import { EVENTS, type EventType, findEventDefinition } from '../../../bpf/schema/index.ts';

/** Column name -> value; a type's own columns have their full name, such as `sys_write.fd`. */
export type Row = { event_type?: EventType } & { [column: string]: number | bigint | EventType | undefined };

/** Whether columns of each event type are common to all types, by its id and by their names. */
const ARE_COMMON = new Map(
  EVENTS.map(({ id }) => [
    id,
    new Map(
      COLUMNS.filter(({ eventType }) => eventType === 0 || eventType === id).map((one) => [
        one.name,
        one.eventType === 0,
      ]),
    ),
  ]),
);

export function blockOf(rows: readonly Row[]): Block {
  const block = createBlock(Math.max(rows.length, 1));
  const types = block.columns.get('event_type')!;
  for (const row of rows) {
    const { id } = EVENTS.find(({ name }) => name === (row.event_type ?? 'sys_write'))!;
    const areCommon = ARE_COMMON.get(id)!;
    // Columns are zero where nothing is written; a row has few of them.
    for (const name of Object.keys(row)) {
      const [isCommon, value] = [areCommon.get(name), row[name]];
      if (isCommon === undefined || value === undefined || value === 0 || name === 'event_type') continue;
      const values = block.columns.get(name)!;
      const place = isCommon ? block.rowCount : block.typeCounts[id]!;
      if (values instanceof BigUint64Array || values instanceof BigInt64Array) values[place] = BigInt(value);
      else values[place] = Number(value);
    }
    types[block.rowCount] = id;
    block.rowCount++;
    block.typeCounts[id]!++;
  }
  return block;
}

/** The inverse of `blockOf`, with every column and the number. */
export function rowsOf(block: NumberedBlock): Record<string, number | bigint | string>[] {
  const places = typeRows(block);
  const types = block.columns.get('event_type')! as Uint8Array;
  return Array.from({ length: block.rowCount }, (_, row) => {
    const values: Record<string, number | bigint | string> = { number: block.numbers[row]! };
    for (const { name, eventType } of COLUMNS) {
      const column = block.columns.get(name);
      if (!column || (eventType !== 0 && eventType !== types[row])) continue;
      values[name] = column[eventType === 0 ? row : places[row]!]!;
    }
    values.event_type = findEventDefinition(types[row]!)!.name;
    return values;
  });
}

export function numbersOf(blocks: Iterable<NumberedBlock>): number[] {
  return [...blocks].flatMap((block) => Array.from(block.numbers, Number));
}

export function temporaryFolder(): { path: string; remove(): void } {
  const path = mkdtempSync(join(tmpdir(), 'kreplay-recording-'));
  return { path, remove: () => rmSync(path, { recursive: true, force: true }) };
}

export const START_NS = 1_763_683_200_000_000_001n;

/** A writer whose clock stands still until it is set. */
export function testWriter(path: string, clock = { nowNs: START_NS }): RecordingWriter {
  return openWriter({ path, node: 'node-1', bootId: 'boot', machineId: 'machine', nowNs: () => clock.nowNs });
}
