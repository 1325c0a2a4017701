/** Adapts kreplay's recording to the interface of a store of events. */
import type { EventFilter } from '../../agent/recording/read/event_filter.ts';
import { openReader, type RecordingScanRequest } from '../../agent/recording/read/reader.ts';
import { openWriter } from '../../agent/recording/write/writer.ts';
import { ABSENT_PID, RARE, SLOWEST_NS } from './event_stream.ts';
import type { RareFilter, StoreReads, StoreWriter } from './store_sides.ts';

export function openKreplayWriter(path: string, nowNs: () => bigint): StoreWriter {
  return openWriter({ path, node: 'bench', bootId: 'boot', machineId: 'machine', nowNs });
}

const RARE_EVENTS: Readonly<Record<RareFilter, EventFilter>> = {
  duration: { minDurationNs: RARE.minDurationNs },
  pid: { pid: RARE.pid },
  service: { services: [RARE.service] },
  nothing: { pid: ABSENT_PID },
};

export function openKreplayReads(path: string): StoreReads {
  const reader = openReader(path);
  function* counts(request: RecordingScanRequest): Generator<number> {
    for (const { rowCount } of reader.scan(request)) yield rowCount;
  }
  const count = (request: RecordingScanRequest) => {
    let rows = 0;
    for (const rowCount of counts(request)) rows += rowCount;
    return rows;
  };
  return {
    transaction: (transactionId) => count({ filter: { transactionId } }),
    rareEvents: (by) => count({ filter: RARE_EVENTS[by] }),
    slowest: () => count({ filter: { minDurationNs: BigInt(SLOWEST_NS) } }),
    page: (fromNs, limit) => count({ after: { timestampNs: fromNs, number: -1n }, limit }),
    window: (fromNs, toNs) => count({ filter: { fromNs, toNs } }),
    latest: (limit) => count({ order: 'desc', limit }),
    twoColumns() {
      let rows = 0;
      let seen = 0;
      for (const { rowCount, columns } of reader.scan({ columns: ['pid', 'cpu'] })) {
        const [pid, cpu] = [columns.get('pid')! as Uint32Array, columns.get('cpu')! as Uint16Array];
        for (let row = 0; row < rowCount; row++) seen += pid[row]! + cpu[row]!;
        rows += rowCount;
      }
      return seen > 0 ? rows : 0;
    },
    everything: () => counts({}),
    close: reader.close,
  };
}
