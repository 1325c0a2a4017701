/**
 * Compares the reports of runs with each other, or with the incident that the runs replayed. Several reports on one
 * side are repetitions of a run, whose values form a band from p10 to p90. If the bands of both sides overlap,
 * repetitions of one run may differ as much.
 */
import { type ComparedReport, computeDifference } from '../../model/run_difference.ts';
import { selectQuantile } from './sums.ts';

export interface Band {
  p10: number;
  median: number;
  p90: number;
  /** Number of runs from which the band was computed. */
  count: number;
}

export type RowVerdict = 'new' | 'vanished' | 'longer' | 'less' | 'same' | 'within' | 'unknown';

export interface ReportRow {
  op_class: string;
  path: string;
  role: string;
  calls: readonly [a: Band | null, b: Band | null];
  /** Time that the calls took on each side; null if no report of the side contains this time. */
  took_ns: readonly [a: Band | null, b: Band | null];
  /** Median of B minus median of A; 0 if one of the medians is unknown. */
  changeNs: number;
  verdict: RowVerdict;
}

export interface ReportComparison {
  beside: 'incident' | 'run';
  /** Rows, with the largest change first. */
  rows: ReportRow[];
  /** Total time of all calls in a run, on each side. */
  took_ns: readonly [a: Band, b: Band];
  verdict: RowVerdict;
}

interface RunValues {
  calls: number[];
  took_ns: number[];
}

const createValues = (): RunValues => ({ calls: [], took_ns: [] });
type StreamKey = string;
interface ReportsSide {
  rows: Map<StreamKey, RunValues>;
  totals: number[];
}

/**
 * Compares the runs in `b`, which is not empty, with the runs in `a`. If `a` is empty, compares the runs with their
 * incident.
 */
export function compareReports(a: readonly ComparedReport[], b: readonly ComparedReport[]): ReportComparison {
  const runs = collectSide(b, 1);
  const before = a.length > 0 ? collectSide(a, 1) : collectSide(b, 0);
  const keys = new Set([...runs.rows.keys(), ...before.rows.keys()]);
  const rows = [...keys].map((key): ReportRow => {
    const [op_class, path, role] = JSON.parse(key) as [string, string, string];
    const one = fillMissingRuns(before.rows.get(key), a.length);
    const other = fillMissingRuns(runs.rows.get(key), b.length);
    const calls = [computeBand(one.calls), computeBand(other.calls)] as const;
    const took_ns = [computeBand(one.took_ns), computeBand(other.took_ns)] as const;
    const changeNs = took_ns[0] && took_ns[1] ? took_ns[1].median - took_ns[0].median : 0;
    return { op_class, path, role, calls, took_ns, changeNs, verdict: chooseVerdict(calls, took_ns) };
  });
  const took_ns = [computeBand(before.totals)!, computeBand(runs.totals)!] as const;
  return {
    beside: a.length > 0 ? 'run' : 'incident',
    rows: rows.sort(
      (one, other) => computeChangeSize(other) - computeChangeSize(one) || (one.path < other.path ? -1 : 1),
    ),
    took_ns,
    verdict: timeVerdict(took_ns),
  };
}

/** An unknown time counts as 0, so that a row with only one known time is sorted by that time. */
const computeChangeSize = ({ took_ns: [a, b] }: ReportRow) => Math.abs((b?.median ?? 0) - (a?.median ?? 0));

/** Collects the values of one side of each report: side 0 is the incident, side 1 the run. */
function collectSide(reports: readonly ComparedReport[], side: 0 | 1): ReportsSide {
  const rows = new Map<StreamKey, RunValues>();
  const totals: number[] = [];
  for (const report of reports) {
    const { streams, took_ns } = computeDifference(report);
    totals.push(took_ns[side]);
    for (const { op_class, path, role, ...stream } of streams) {
      const key = JSON.stringify([op_class, path, role]);
      const values = rows.get(key) ?? createValues();
      rows.set(key, values);
      values.calls.push(stream.calls[side]);
      const took = stream.took_ns[side];
      if (took !== null) values.took_ns.push(took);
    }
  }
  return { rows, totals };
}

/** Adds zero calls and zero time for each run without calls of the row. */
function fillMissingRuns(values: RunValues | undefined, runs: number): RunValues {
  const { calls, took_ns } = values ?? createValues();
  const missing = Array<number>(Math.max(runs - calls.length, 0)).fill(0);
  return { calls: [...calls, ...missing], took_ns: [...took_ns, ...missing] };
}

function computeBand(values: readonly number[]): Band | null {
  if (values.length === 0) return null;
  const ascending = Float64Array.from(values).sort();
  const [p10, median, p90] = [0.1, 0.5, 0.9].map((share) => selectQuantile(ascending, share));
  return { p10: p10!, median: median!, p90: p90!, count: values.length };
}

function chooseVerdict(calls: ReportRow['calls'], took: ReportRow['took_ns']): RowVerdict {
  const [before, after] = calls.map((band) => band ?? { p10: 0, p90: 0 });
  if (before!.p90 === 0 && after!.p10 > 0) return 'new';
  if (before!.p10 > 0 && after!.p90 === 0) return 'vanished';
  return took[0] && took[1] ? timeVerdict([took[0], took[1]]) : 'unknown';
}

function timeVerdict([a, b]: readonly [Band, Band]): RowVerdict {
  if (a.p10 === b.p10 && a.p90 === b.p90 && a.median === b.median) return 'same';
  if (b.p10 > a.p90) return 'longer';
  return b.p90 < a.p10 ? 'less' : 'within';
}
