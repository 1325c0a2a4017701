/** The messages that the helper (native/runner) sends during a run, one JSON text per line. */
import { z } from 'zod';

/** Maximum number of `elsewhere` messages from the helper (native/runner/match/replay.h). */
export const ELSEWHERE_MAX = 1024;

const ns = z.number();
const count = z.number();

export const controlLineSchema = z.discriminatedUnion('kind', [
  z.object({
    kind: z.literal('calibrated'),
    floor_ns: ns,
    bias_ns: ns,
    sleep_p50_ns: ns,
    sleep_p99_ns: ns,
    features: z.record(z.string(), z.unknown()).default({}),
  }),
  z.object({ kind: z.literal('started'), pid: z.number() }),
  z.object({
    kind: z.literal('stream'),
    stream: z.int().nonnegative(),
    op_class: z.string(),
    path: z.string(),
    role: z.string(),
    recorded_events: count,
  }),
  z.object({ kind: z.literal('elsewhere'), path: z.string() }),
  z.object({ kind: z.literal('uncovered'), what: z.string(), count }),
  z.object({
    kind: z.literal('ended'),
    exit_code: z.number().nullable(),
    signal: z.string().nullable(),
    duration_ns: ns,
    calls: count,
    delayed: count,
    injected_ns: ns,
    late_p50_ns: ns,
    late_p99_ns: ns,
    late_max_ns: ns,
    unreplayed_events: count,
    steal_ns: ns.nullable(),
  }),
  z.object({ kind: z.literal('failed'), reason: z.string() }),
]);

export type ControlLine = z.infer<typeof controlLineSchema>;
type LineOf<Kind extends ControlLine['kind']> = Extract<ControlLine, { kind: Kind }>;

/**
 * The last message of each kind so far. `streams` has the last message for each stream, and `uncovered` has the last
 * count for each kind of call.
 */
export interface RunnerStatus {
  calibrated?: LineOf<'calibrated'>;
  started?: LineOf<'started'>;
  ended?: LineOf<'ended'>;
  failed?: LineOf<'failed'>;
  /** The last message about each stream; the key is the stream's number. */
  streams: Map<number, LineOf<'stream'>>;
  uncovered: Map<string, number>;
  /** Paths of files that the command called on but that are not in the plan, at most ELSEWHERE_MAX. */
  elsewhere: string[];
}

export function createRunnerStatus(): RunnerStatus {
  return { streams: new Map(), uncovered: new Map(), elsewhere: [] };
}

/** Adds a message to `said`. Ignores a line that does not parse, because a newer helper may have sent it. */
export function applyLine(said: RunnerStatus, text: string): void {
  const line = parseControlLine(text);
  if (!line) return;
  if (line.kind === 'stream') said.streams.set(line.stream, line);
  else if (line.kind === 'uncovered') said.uncovered.set(line.what, line.count);
  else if (line.kind === 'elsewhere') said.elsewhere.push(line.path);
  else Object.assign(said, { [line.kind]: line });
}

function parseControlLine(text: string): ControlLine | undefined {
  try {
    return controlLineSchema.safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}
