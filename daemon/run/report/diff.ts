/** Compares a run with its incident, or with another run. */
import { z } from 'zod';
import { RunError } from '../errors.ts';
import { RESULT_VERSION } from './result.ts';

const count = z.number().nonnegative();

/** The parts of a report that are compared. */
const comparedSchema = z.object({
  kreplay_run: z.literal(RESULT_VERSION),
  verdict: z.string(),
  settings: z.object({ transaction_id: z.string(), command: z.array(z.string()) }),
  ended: z.object({ code: z.number(), duration_ns: count }).nullable(),
  figures: z
    .object({
      calls: count,
      first_divergence_ns: z.number().nullable(),
      streams: z.array(
        z.object({
          op_class: z.string(),
          path: z.string(),
          role: z.string(),
          recorded_events: count,
          planned_ns: count.nullable(),
          calls: count,
          took_ns: count,
        }),
      ),
    })
    .nullable(),
});

export type Compared = z.infer<typeof comparedSchema>;
type ComparedStream = NonNullable<Compared['figures']>['streams'][number];

export interface StreamChange {
  op_class: string;
  path: string;
  role: string;
  calls: readonly [before: number, after: number];
  /** The first is null when it is unknown. */
  took_ns: readonly [before: number | null, after: number];
  change: 'new' | 'vanished' | 'same';
}

export interface Difference {
  /** The side that the run is compared with: the incident itself, or an earlier run. */
  beside: 'incident' | 'run';
  streams: StreamChange[];
  calls: readonly [before: number, after: number];
  took_ns: readonly [before: number, after: number];
  ended: readonly [before: Compared['ended'], after: Compared['ended']];
  /** When the later run first did what the incident did not. */
  first_divergence_ns: number | null;
}

/** Parses what `kreplay run --report` has written. */
export function parseReport(text: string, path: string): Compared {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    throw new RunError(`${path} is not a report of kreplay run: give a file that --report has written`, 1);
  }
  const { data } = comparedSchema.safeParse(json);
  if (!data) throw new RunError(`${path} is not a report of kreplay run, or is of another version`, 1);
  if (!data.figures) throw new RunError(`${path} is of a run whose command was not started: it was ${data.verdict}`, 1);
  return data;
}

/** Without `before`, the run is compared with its incident. */
export function difference(after: Compared, before?: Compared): Difference {
  const later = byKey(after);
  const earlier = before ? byKey(before) : undefined;
  const keys = new Set([...later.keys(), ...(earlier?.keys() ?? [])]);
  const streams = [...keys].map((key) => {
    const now = later.get(key) ?? [];
    return changeOf(key, earlier ? merged(earlier.get(key) ?? []) : recordedOf(now), merged(now));
  });
  const total = (side: 0 | 1, of: 'calls' | 'took_ns') =>
    streams.reduce((sum, change) => sum + (change[of][side] ?? 0), 0);
  return {
    beside: before ? 'run' : 'incident',
    streams: streams.sort((one, other) => changeSize(other) - changeSize(one) || (one.path < other.path ? -1 : 1)),
    calls: [total(0, 'calls'), total(1, 'calls')],
    took_ns: [total(0, 'took_ns'), total(1, 'took_ns')],
    ended: [before?.ended ?? null, after.ended],
    first_divergence_ns: after.figures?.first_divergence_ns ?? null,
  };
}

export interface DifferenceLimits {
  /** Share by which all calls together may take longer. */
  maxSlower: number | undefined;
  sameCalls: boolean;
}

/** Describes the limits that are exceeded. */
export function exceeded({ took_ns: [before, after], streams }: Difference, limits: DifferenceLimits): string[] {
  const found: string[] = [];
  const { maxSlower, sameCalls } = limits;
  if (maxSlower !== undefined && after > before * (1 + maxSlower)) {
    const slower =
      before === 0 ? 'and there was nothing before' : `${(((after - before) / before) * 100).toFixed(1)} %`;
    found.push(`calls take longer: ${slower}`);
  }
  const changed = streams.filter(({ change }) => change !== 'same').length;
  if (sameCalls && changed > 0) found.push(`${changed} paths are new or have vanished`);
  return found;
}

type Sums = Pick<ComparedStream, 'calls'> & { took_ns: number | null };

function merged(streams: readonly ComparedStream[]): Sums & { took_ns: number } {
  return {
    calls: streams.reduce((sum, { calls }) => sum + calls, 0),
    took_ns: streams.reduce((sum, { took_ns }) => sum + took_ns, 0),
  };
}

function recordedOf(streams: readonly ComparedStream[]): Sums {
  const planned = streams.filter(({ planned_ns }) => planned_ns !== null);
  return {
    calls: streams.reduce((sum, { recorded_events }) => sum + recorded_events, 0),
    took_ns: planned.length > 0 ? planned.reduce((sum, { planned_ns }) => sum + planned_ns!, 0) : null,
  };
}

function byKey({ figures }: Compared): Map<string, ComparedStream[]> {
  return Map.groupBy(figures?.streams ?? [], keyOf);
}

function keyOf({ op_class, path, role }: ComparedStream): string {
  return JSON.stringify([op_class, path, role]);
}

function changeOf(key: string, before: Sums, after: Sums & { took_ns: number }): StreamChange {
  const [op_class, path, role] = JSON.parse(key) as [string, string, string];
  const change =
    before.calls === 0 && after.calls > 0 ? 'new' : before.calls > 0 && after.calls === 0 ? 'vanished' : 'same';
  const calls = [before.calls, after.calls] as const;
  return { op_class, path, role, calls, took_ns: [before.took_ns, after.took_ns], change };
}

function changeSize({ took_ns: [before, after] }: StreamChange): number {
  return Math.abs(after - (before ?? 0));
}
