/** Sums of a transaction's own calls and requests, grouped by call, by file or device, and by service. */
import { getExactValue, getThread, getWhat } from '../../model/columns/event_columns.ts';
import { callName, type LanesModel } from '../../model/lanes/model.ts';
import { OWN } from '../../model/lanes/shares.ts';
import { type CallTotals, selectQuantile } from './sums.ts';

interface CallGroup {
  call: string;
  target: string | null;
  service: string;
  rows: number[];
}

export function callSums(model: LanesModel): CallTotals[] {
  return groupCalls(model).map(({ rows, ...group }) => {
    const failed = rows.reduce((sum, row) => sum + (model.columns.result[row]! < 0 ? 1 : 0), 0);
    return { ...group, count: rows.length, failed, ...computeDurationStats(model, rows) };
  });
}

function groupCalls({ columns, shares }: LanesModel): CallGroup[] {
  const groups = new Map<string, CallGroup>();
  const services = new Map<string, number>();
  const serviceOf = columns.threads.map(({ service }) => {
    if (!services.has(service)) services.set(service, services.size);
    return services.get(service)!;
  });
  /**
   * Groups, indexed by a number that stands for call, target and service. Building text keys for a million events
   * would take longer than all other work.
   */
  const known: CallGroup[] = [];
  const getOrCreateGroup = (row: number): CallGroup => {
    const [call, { target }, { service }] = [callName(columns, row), getWhat(columns, row), getThread(columns, row)];
    const key = JSON.stringify([call, target, service]);
    const group = groups.get(key) ?? { call, target, service, rows: [] };
    groups.set(key, group);
    return group;
  };
  for (let row = 0; row < columns.count; row++) {
    if (shares[row] !== OWN) continue;
    const number = (columns.what[row]! * services.size + serviceOf[columns.thread[row]!]!) * 256 + columns.type[row]!;
    const group = known[number] ?? getOrCreateGroup(row);
    known[number] = group;
    group.rows.push(row);
  }
  return [...groups.values()];
}

/**
 * Computes total, median and p99 of the rows' durations. If doubles would round a duration, exact integers are used.
 */
function computeDurationStats({ columns }: LanesModel, rows: readonly number[]) {
  const { duration, exact } = columns;
  if (exact.duration.size > 0) {
    const ascending = rows
      .map((row) => getExactValue(columns, 'duration', row)!)
      .sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
    const totalNs = ascending.reduce((sum, ns) => sum + ns, 0n);
    return { totalNs, p50Ns: selectQuantile(ascending, 0.5), p99Ns: selectQuantile(ascending, 0.99) };
  }
  const ascending = Float64Array.from(rows, (row) => duration[row]!).sort();
  let [totalNs, restNs] = [0n, 0];
  for (const ns of ascending) {
    if (restNs + ns > Number.MAX_SAFE_INTEGER) {
      totalNs += BigInt(restNs);
      restNs = 0;
    }
    restNs += ns;
  }
  totalNs += BigInt(restNs);
  return { totalNs, p50Ns: BigInt(selectQuantile(ascending, 0.5)), p99Ns: BigInt(selectQuantile(ascending, 0.99)) };
}
