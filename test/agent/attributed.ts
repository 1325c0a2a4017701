/** Records through decoder and resolver with real tables, and the columns that come out. */
import { createContexts } from '../../agent/attribution/contexts.ts';
import { createFiles } from '../../agent/attribution/files.ts';
import { createProcesses } from '../../agent/attribution/processes.ts';
import { createResolver } from '../../agent/attribution/resolve.ts';
import { createDecoder } from '../../bpf/schema/decoder.ts';
import { ATTRIBUTION_QUALITIES, ATTRIBUTION_SOURCES } from '../../bpf/schema/owner.ts';
import { framed } from '../schema/records.ts';
import { createNames } from './names.ts';

export type Attribution = ReturnType<typeof createAttribution>;

export function createAttribution(wallOffsetNs = 0n) {
  const names = createNames();
  const transactions = createNames();
  const oldestIds = { name: 1, context: 1 };
  const contexts = createContexts({
    oldestIds,
    internName: names.intern,
    intern: ({ transactionId, traceId }) => transactions.intern(transactionId ?? traceId ?? ''),
    trustsService: (uid) => uid === 0,
  });
  const processes = createProcesses({ intern: names.intern, oldestIds, isOwn: (pid) => pid === OWN_PID });
  const files = createFiles(names.intern);
  const decoder = createDecoder();
  const wallOffset = new Uint32Array(BigInt64Array.of(wallOffsetNs).buffer);
  const resolver = createResolver(decoder.decoded, {
    contexts,
    processes,
    files,
    internName: names.intern,
    oldestIds,
    wallOffset,
  });
  const { block } = decoder.decoded;

  return {
    contexts,
    processes,
    files,
    resolver,
    marker: (context_id: number, body: string) =>
      contexts.define({ context_id, time_ns: 0, uid: 0 }, `KREPLAY1 ${body}\n`),
    program: (process_id: number, executable: string, pid = 10) =>
      processes.define({ process_id, pid, uid: 0, kernel_thread: 0, executable }),
    /** Decodes and resolves one block. */
    resolve(records: readonly Uint8Array[]): void {
      const frames = framed(records);
      decoder.decode(frames, 0, frames.length, () => true);
      resolver.resolve(new Uint32Array(frames.buffer));
    },
    number: (column: string, row = 0) => block.columns.get(column)![row]!,
    name: (column: string, row = 0) => names.text(Number(block.columns.get(column)![row])),
    transaction: (column: string, row = 0) => transactions.text(Number(block.columns.get(column)![row])),
    /** `transaction source quality service` of a row. */
    owner(row = 0): string {
      const source = ATTRIBUTION_SOURCES[Number(this.number('context_source', row))];
      const quality = ATTRIBUTION_QUALITIES[Number(this.number('context_quality', row))];
      return [this.transaction('context', row) ?? '-', source, quality, this.name('service', row)].join(' ');
    },
  };
}

/** Events of this process are the recorder's own. */
export const OWN_PID = 4242;
