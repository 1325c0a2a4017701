/** Lists the calls on which the command waited longest, because these calls made it slow or made it fail. */
import type { RunnerStatus } from '../control_lines.ts';
import { OPS } from '../format/plan_file.ts';
import type { CallReport } from './read_report.ts';

export const FELT_MAX = 5;

export interface FeltCall {
  op: string;
  path: string;
  /** Name of the thread, with each number replaced by `#`. */
  role: string;
  /** Time from the command's start to the call. */
  run_offset_ns: number;
  target_ns: number;
  took_ns: number;
}

const OP_NAME_OF: ReadonlyMap<number, string> = new Map(Object.entries(OPS).map(([name, number]) => [number, name]));

/**
 * Returns the longest calls, the longest first. Leaves out calls to files that are not in the incident, because their
 * names and durations are unknown.
 */
export function selectFeltCalls(calls: CallReport, { streams }: RunnerStatus): FeltCall[] {
  const computeTookNs = (at: number) => calls.heldNs[at]! + calls.nativeNs[at]!;
  const slowest: number[] = [];
  for (let at = 0; at < calls.count; at++) {
    if (!streams.has(calls.stream[at]!)) continue;
    const tookNs = computeTookNs(at);
    if (slowest.length === FELT_MAX && tookNs <= computeTookNs(slowest.at(-1)!)) continue;
    slowest.splice(slowest.findLastIndex((other) => computeTookNs(other) >= tookNs) + 1, 0, at);
    if (slowest.length > FELT_MAX) slowest.pop();
  }
  return slowest.map((at) => {
    const { path, role } = streams.get(calls.stream[at]!)!;
    return {
      op: OP_NAME_OF.get(calls.op[at]!) ?? 'call',
      path,
      role,
      run_offset_ns: calls.receivedNs[at]!,
      target_ns: calls.targetNs[at]!,
      took_ns: computeTookNs(at),
    };
  });
}
