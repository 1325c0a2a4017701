/** Writes a recording of transactions whose events are evenly spaced. */
import { openWriter } from '../../agent/recording/write/writer.ts';
import { createBlock } from '../../bpf/schema/block.ts';
import { ATTRIBUTION_QUALITIES, ATTRIBUTION_SOURCES } from '../../bpf/schema/owner.ts';
import { sysWrite, WRITE_SYSCALLS } from '../../bpf/schema/sys_write.ts';
import { setWords, streamColumns } from './stream_columns.ts';

export interface PacedTransaction {
  transactionId: string;
  events: number;
  periodNs: number;
  /** Number of threads that take turns; 1 by default. */
  threads?: number;
}

/** Its low word is 0, as `setWords` requires. */
const START_HIGH = 0x1879_b3d7;
const START_NS = BigInt(START_HIGH) << 32n;
const DURATION_NS = 5000;
const BYTES = 512;
const BLOCK_ROWS = 4096;
const PID = 4000;

export function writePaced(path: string, transactions: readonly PacedTransaction[]): void {
  let nowNs = START_NS;
  const writer = openWriter({ path, node: 'bench', bootId: 'boot', machineId: 'machine', nowNs: () => nowNs });
  const block = createBlock(BLOCK_ROWS);
  const to = streamColumns(block);
  const service = writer.nameId('checkout');
  const file = writer.fileId('/var/lib/app/orders.log', 'regular');

  for (const { transactionId, events, periodNs, threads = 1 } of transactions) {
    const context = writer.contextId({ transactionId, traceId: '4bf92f3577b34da6a3ce929d0e0e4736', spanId: null });
    for (let first = 0; first < events; first += BLOCK_ROWS) {
      const rows = Math.min(events - first, BLOCK_ROWS);
      block.rowCount = rows;
      block.typeCounts.fill(0);
      block.typeCounts[sysWrite.id] = rows;
      for (let row = 0; row < rows; row++) {
        to.type[row] = sysWrite.id;
        setWords(to.timestamp, row, (first + row) * periodNs);
        to.timestamp[row * 2 + 1]! += START_HIGH;
        setWords(to.duration, row, DURATION_NS);
        to.context[row] = context;
        to.source[row] = ATTRIBUTION_SOURCES.indexOf('marker');
        to.quality[row] = ATTRIBUTION_QUALITIES.indexOf('exact');
        to.service[row] = service;
        to.pid[row] = PID;
        to.tid[row] = PID + ((first + row) % threads);
        to.comm[row] = service;
        setWords(to.result, row, BYTES);
        to.file[row] = file;
        setWords(to.bytesRequested, row, BYTES);
        to.fd[row] = 3;
        to.syscall[row] = WRITE_SYSCALLS.write;
      }
      nowNs = START_NS + BigInt((first + rows) * periodNs);
      writer.append(block);
      writer.flush();
    }
  }
  writer.close();
}
