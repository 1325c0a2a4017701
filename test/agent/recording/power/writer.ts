/**
 * A writer whose events follow from their numbers: `node writer.ts PATH [BYTES | again]`. It says when each flush is
 * committed, and goes on until it is killed. It lets the log be copied to the file now and then, so that logs begin
 * again; with `again` it ends in order instead, which removes the log, and opens the recording again.
 */
import { writeSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { openWriterThread, type WriterThread } from '../../../../agent/recording/write/writer_thread.ts';
import { blockOf } from '../fixture.ts';
import { FLUSH_NS, FLUSH_ROWS, rowOf, START_NS } from './events.ts';

const FLUSH_EVERY_MS = 15;
const COPY_EVERY = 60;
const END_EVERY = 10;

const [path, option] = process.argv.slice(2);
const endsInOrder = option === 'again';
let flushed = 0;
let writer = await open();
const other = endsInOrder ? undefined : new Database(path!);
for (;;) {
  const first = flushed * FLUSH_ROWS;
  writer.append(blockOf(Array.from({ length: FLUSH_ROWS }, (_, i) => rowOf(first + i))));
  flushed++;
  writer.flush();
  await sleep(FLUSH_EVERY_MS);
  // It is partial while the writer commits, and whole otherwise: both happen.
  if (flushed % COPY_EVERY === 0) other?.pragma('wal_checkpoint(PASSIVE)');
  if (!endsInOrder || flushed % END_EVERY !== 0) continue;
  await writer.close();
  writer = await open();
}

function open(): Promise<WriterThread> {
  return openWriterThread({
    path: path!,
    node: 'node-1',
    bootId: 'boot-1',
    machineId: 'machine',
    nowNs: () => START_NS + BigInt(flushed) * FLUSH_NS,
    ...(option !== undefined && !endsInOrder && { retention: { bytes: Number(option) } }),
    onTrouble(problem) {
      throw problem;
    },
    onCommitted: ({ batch }) => {
      const [last] = batch.rows.slice(-1);
      if (last) writeSync(1, `committed ${last.firstNumber + last.unwritten.to}\n`);
    },
  });
}
