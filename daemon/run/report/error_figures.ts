/** Counts how many planned errors were returned. Planned errors come from rules and from recorded calls that failed. */
import { NONE } from '../format/report_file.ts';
import type { DelayPlan } from '../plan/compile.ts';
import type { CallReport } from './read_report.ts';

export interface ErrorFigures {
  planned: number;
  returned: number;
  /**
   * Number of errors that were not returned although a call got the event: the call was another system call than the
   * error applies to, or its file was only guessed.
   */
  withheld: number;
  /** Number of errors whose events no call got. */
  not_called: number;
}

export function computeErrorFigures({ events: { error }, eventCount }: DelayPlan, calls: CallReport): ErrorFigures {
  const returned = new Set<number>();
  const called = new Set<number>();
  for (let at = 0; at < calls.count; at++) {
    const event = calls.event[at]!;
    if (event === NONE || error[event] === 0) continue;
    called.add(event);
    if (calls.error[at] === error[event]) returned.add(event);
  }
  let planned = 0;
  for (let event = 0; event < eventCount; event++) if (error[event] !== 0) planned++;
  return {
    planned,
    returned: returned.size,
    withheld: called.size - returned.size,
    not_called: planned - called.size,
  };
}

/** Describes the errors that were not returned; undefined if all errors were returned. */
export function formatErrorFigures({ planned, returned, withheld, not_called }: ErrorFigures): string | undefined {
  if (returned === planned) return undefined;
  const why: string[] = [];
  if (withheld > 0) why.push(`${withheld} were for another call or file`);
  if (not_called > 0) why.push(`${not_called} had no call of their own`);
  return `${returned} of ${planned} errors were returned: ${why.join(', ')}`;
}
