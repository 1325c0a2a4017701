/**
 * A writer in its own process, for tests that kill it or read next to it: `node fixture_writer.ts PATH RUN [BYTES]`. On
 * "go" on standard input it opens the file and flushes events without end, as fast as they are written; it prints the
 * number before which a reader sees all events: those are safe. On "end" it closes.
 */
import { randomFillSync } from 'node:crypto';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import Database from 'better-sqlite3';
import { openWriterThread } from '../../../agent/recording/write/writer_thread.ts';
import { createBlock } from '../../../bpf/schema/block.ts';
import { blockIo } from '../../../bpf/schema/block_io.ts';
import { sysWrite } from '../../../bpf/schema/sys_write.ts';

const FLUSH_ROWS = [1, 7, 40, 300, 900, 4096];
const ROWS_MAX = Math.max(...FLUSH_ROWS);
const BLOCK_IO_EVERY = 2;
const FLUSH_EVERY_MS = 2;

const SAFE_END = 'SELECT first_number + event_count FROM segment ORDER BY first_number DESC LIMIT 1';

/** Columns that hardly compress, so that the file soon reaches its limit. */
const NOISE = [
  ...['sys_write.bytes_requested', 'sys_write.fd', 'block_io.sector', 'block_io.bytes', 'block_io.queue_ns'],
  ...[0, 1, 2, 3].map((origin) => `block_io.origins_${origin}_bytes`),
];

const block = createBlock(ROWS_MAX);
const types = block.columns.get('event_type')!;
for (let row = 0; row < ROWS_MAX; row++) types[row] = row % BLOCK_IO_EVERY === 0 ? blockIo.id : sysWrite.id;
for (const name of NOISE) randomFillSync(block.columns.get(name)!);

/**
 * Every row of a flush contains its flush, its own index and the number of rows, so that a reader can check
 * completeness.
 */
function fill(run: number, flush: number, rows: number, owner: { context: number; service: number }): void {
  const column = (name: string) => block.columns.get(name)!;
  const startNs = nowNs();
  block.rowCount = rows;
  block.typeCounts[blockIo.id] = Math.ceil(rows / BLOCK_IO_EVERY);
  block.typeCounts[sysWrite.id] = rows - block.typeCounts[blockIo.id]!;
  column('pid').fill(run as never, 0, rows);
  column('tid').fill(flush as never, 0, rows);
  column('duration_ns').fill(BigInt(rows) as never, 0, rows);
  column('context').fill(owner.context as never, 0, rows);
  column('service').fill(owner.service as never, 0, rows);
  for (let row = 0; row < rows; row++) {
    column('result')[row] = BigInt(row);
    column('timestamp_ns')[row] = startNs - BigInt((row * 7919) % 20_000);
  }
}

function nowNs(): bigint {
  return BigInt(Date.now()) * 1_000_000n;
}

const [path, run, bytes] = process.argv.slice(2);
const lines = createInterface({ input: process.stdin });
const told = lines[Symbol.asyncIterator]();
process.stdout.write('ready\n');
await told.next();

const writer = await openWriterThread({
  path: path!,
  node: 'node-1',
  bootId: 'boot',
  machineId: 'machine',
  nowNs,
  ...(bytes !== undefined && { retention: { bytes: Number(bytes) } }),
  onTrouble(problem) {
    throw problem;
  },
});
let ending = false;
void told.next().then(() => (ending = true));

const seen = new Database(path!, { readonly: true });
const safeEnd = seen.prepare<[], number>(SAFE_END).pluck();
const service = writer.nameId('shop');
let safe = -1;
for (let flush = 0; !ending; flush++) {
  const rows = FLUSH_ROWS[flush % FLUSH_ROWS.length]!;
  if (writer.freeRows() >= rows) {
    const context = writer.contextId({ transactionId: `${run}-${flush}`, traceId: null, spanId: null });
    fill(Number(run), flush, rows, { context, service });
    writer.append(block);
  }
  writer.flush();
  await sleep(FLUSH_EVERY_MS);
  const end = safeEnd.get() ?? 0;
  if (end > safe) process.stdout.write(`${end}\n`);
  safe = end;
}
seen.close();
await writer.close();
lines.close();
