/**
 * Compares the report of a run with its incident, or with the report of another run. The web page uses the same code,
 * so this file imports nothing and uses nothing but the language itself.
 */

/** Version of the report that `kreplay run --report` writes. */
export const RESULT_VERSION = 1;

interface ComparedStream {
  op_class: string;
  path: string;
  role: string;
  recorded_events: number;
  planned_ns: number | null;
  calls: number;
  took_ns: number;
}

/** The parts of a report that are compared. */
export interface ComparedReport {
  verdict: string;
  settings: { transaction_id: string; command: string[] };
  ended: { code: number; duration_ns: number } | null;
  figures: { calls: number; first_divergence_ns: number | null; streams: ComparedStream[] };
}

export interface StreamChange {
  op_class: string;
  path: string;
  role: string;
  calls: readonly [before: number, after: number];
  /** Time that the calls took in total; `before` is null if this time is unknown. */
  took_ns: readonly [before: number | null, after: number];
  change: 'new' | 'vanished' | 'same';
}

export interface Difference {
  /** Whether the run is compared with the incident or with an earlier run. */
  beside: 'incident' | 'run';
  streams: StreamChange[];
  calls: readonly [before: number, after: number];
  took_ns: readonly [before: number, after: number];
  ended: readonly [before: ComparedReport['ended'], after: ComparedReport['ended']];
  /** Time at which the later run first did something that the incident did not. */
  first_divergence_ns: number | null;
}

/** Returns a report or a problem; the problem's text completes a sentence that begins with the name of the file. */
export function readReport(text: string): { report: ComparedReport } | { problem: string } {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return { problem: 'is not a report of kreplay run: give a file that --report has written' };
  }
  const version = isRecord(json) ? json.kreplay_run : undefined;
  if (typeof version === 'number' && version !== RESULT_VERSION)
    return { problem: `is a report of version ${version} of kreplay run, not ${RESULT_VERSION}` };
  const report = version === RESULT_VERSION ? parseCompared(json) : null;
  if (!report) return { problem: 'is not a report of kreplay run, or is of another version' };
  const { figures, ...rest } = report;
  if (!figures) return { problem: `is of a run whose command was not started: it was ${report.verdict}` };
  return { report: { ...rest, figures } };
}

type JsonFields = Readonly<Record<string, unknown>>;

const isRecord = (value: unknown): value is JsonFields =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const isText = (value: unknown) => typeof value === 'string';
const isNumber = (value: unknown) => typeof value === 'number' && Number.isFinite(value);
const isCount = (value: unknown) => isNumber(value) && (value as number) >= 0;
const isNullOr = (is: (value: unknown) => boolean) => (value: unknown) => value === null || is(value);
const createListTest = (is: (value: unknown) => boolean) => (value: unknown) => Array.isArray(value) && value.every(is);
const hasFields = (fields: Readonly<Record<string, (value: unknown) => boolean>>) => (value: unknown) =>
  isRecord(value) && Object.entries(fields).every(([name, is]) => is(value[name]));

const isStream = hasFields({
  op_class: isText,
  path: isText,
  role: isText,
  recorded_events: isCount,
  planned_ns: isNullOr(isCount),
  calls: isCount,
  took_ns: isCount,
});
const isCompared = hasFields({
  verdict: isText,
  settings: hasFields({ transaction_id: isText, command: createListTest(isText) }),
  ended: isNullOr(hasFields({ code: isNumber, duration_ns: isCount })),
  figures: isNullOr(
    hasFields({ calls: isCount, first_divergence_ns: isNullOr(isNumber), streams: createListTest(isStream) }),
  ),
});

type Read = Omit<ComparedReport, 'figures'> & { figures: ComparedReport['figures'] | null };

function parseCompared(json: unknown): Read | null {
  return isCompared(json) ? (json as Read) : null;
}

/** Compares two runs; if there is no `before`, the run is compared with its incident. */
export function computeDifference(after: ComparedReport, before?: ComparedReport): Difference {
  const later = groupByKey(after);
  const earlier = before ? groupByKey(before) : undefined;
  const keys = new Set([...later.keys(), ...(earlier?.keys() ?? [])]);
  const streams = [...keys].map((key) => {
    const now = later.get(key) ?? [];
    return buildStreamChange(key, earlier ? mergeStreams(earlier.get(key) ?? []) : sumRecorded(now), mergeStreams(now));
  });
  const sumSide = (side: 0 | 1, of: 'calls' | 'took_ns') =>
    streams.reduce((sum, change) => sum + (change[of][side] ?? 0), 0);
  return {
    beside: before ? 'run' : 'incident',
    streams: streams.sort((one, other) => changeSize(other) - changeSize(one) || (one.path < other.path ? -1 : 1)),
    calls: [sumSide(0, 'calls'), sumSide(1, 'calls')],
    took_ns: [sumSide(0, 'took_ns'), sumSide(1, 'took_ns')],
    ended: [before?.ended ?? null, after.ended],
    first_divergence_ns: after.figures.first_divergence_ns,
  };
}

type StreamSums = Pick<ComparedStream, 'calls'> & { took_ns: number | null };

function mergeStreams(streams: readonly ComparedStream[]): StreamSums & { took_ns: number } {
  return {
    calls: streams.reduce((sum, { calls }) => sum + calls, 0),
    took_ns: streams.reduce((sum, { took_ns }) => sum + took_ns, 0),
  };
}

function sumRecorded(streams: readonly ComparedStream[]): StreamSums {
  const planned = streams.filter(({ planned_ns }) => planned_ns !== null);
  return {
    calls: streams.reduce((sum, { recorded_events }) => sum + recorded_events, 0),
    took_ns: planned.length > 0 ? planned.reduce((sum, { planned_ns }) => sum + planned_ns!, 0) : null,
  };
}

function groupByKey({ figures }: ComparedReport): Map<string, ComparedStream[]> {
  return Map.groupBy(figures.streams, buildStreamKey);
}

function buildStreamKey({ op_class, path, role }: ComparedStream): string {
  return JSON.stringify([op_class, path, role]);
}

function buildStreamChange(key: string, before: StreamSums, after: StreamSums & { took_ns: number }): StreamChange {
  const [op_class, path, role] = JSON.parse(key) as [string, string, string];
  const change =
    before.calls === 0 && after.calls > 0 ? 'new' : before.calls > 0 && after.calls === 0 ? 'vanished' : 'same';
  const calls = [before.calls, after.calls] as const;
  return { op_class, path, role, calls, took_ns: [before.took_ns, after.took_ns], change };
}

function changeSize({ took_ns: [before, after] }: StreamChange): number {
  return Math.abs(after - (before ?? 0));
}
