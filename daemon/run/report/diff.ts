/** Reads the reports that `kreplay diff` compares, and checks their difference against limits. */

import { type ComparedReport, type Difference, readReport } from '../../model/run_difference.ts';
import { RunError } from '../errors.ts';

/** Parses a report that `kreplay run --report` has written. */
export function parseReport(text: string, path: string): ComparedReport {
  const read = readReport(text);
  if ('problem' in read) throw new RunError(`${path} ${read.problem}`, 1);
  return read.report;
}

export interface DifferenceLimits {
  /** Share by which the total time of all calls may increase; undefined for no limit. */
  maxSlower: number | undefined;
  sameCalls: boolean;
}

/** Describes each limit that is exceeded. */
export function listExceeded({ took_ns: [before, after], streams }: Difference, limits: DifferenceLimits): string[] {
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
