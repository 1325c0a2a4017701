/**
 * A writer whose events follow from their numbers: `node writer.ts PATH [BYTES]`. It says when each flush is committed,
 * and lets the log be copied to the file now and then, so that logs begin again; it goes on until it is killed.
 */
import { writeSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { openWriterThread } from '../../../../agent/recording/write/writer_thread.ts';
import { blockOf } from '../fixture.ts';
import { FLUSH_NS, FLUSH_ROWS, rowOf, START_NS } from './events.ts';

const FLUSH_EVERY_MS = 15;
const COPY_EVERY = 60;

const [path, bytes] = process.argv.slice(2);
let flushed = 0;
const writer = await openWriterThread({
  path: path!,
  node: 'node-1',
  bootId: 'boot-1',
  machineId: 'machine',
  nowNs: () => START_NS + BigInt(flushed) * FLUSH_NS,
  ...(bytes !== undefined && { retention: { bytes: Number(bytes) } }),
  onTrouble(problem) {
    throw problem;
  },
  onCommitted: ({ batch }) => {
    const [last] = batch.rows.slice(-1);
    if (last) writeSync(1, `committed ${last.firstNumber + last.unwritten.to}\n`);
  },
});
const other = new Database(path!);
for (;;) {
  const first = flushed * FLUSH_ROWS;
  writer.append(blockOf(Array.from({ length: FLUSH_ROWS }, (_, i) => rowOf(first + i))));
  flushed++;
  writer.flush();
  await sleep(FLUSH_EVERY_MS);
  // It is partial while the writer commits, and whole otherwise: both happen.
  if (flushed % COPY_EVERY === 0) other.pragma('wal_checkpoint(PASSIVE)');
}
