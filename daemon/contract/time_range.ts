/** The parameters `from` and `to` of a query. */
import { type InputError, Problem } from '../base/problem.ts';
import { resolveTime, type TimeExpression } from '../base/time.ts';
import { omitUndefined } from './omit_undefined.ts';

export interface TimeRange {
  readonly fromNs?: bigint;
  readonly toNs?: bigint;
}

export function resolveTimeRange(
  { from, to }: { from?: TimeExpression | undefined; to?: TimeExpression | undefined },
  nowNs: bigint,
): TimeRange {
  const fromNs = from && resolveTime(from, nowNs);
  const toNs = to && resolveTime(to, nowNs);
  if (fromNs !== undefined && toNs !== undefined && fromNs > toNs)
    throw createReversedProblem('from', 'to', 'later than');
  return omitUndefined({ fromNs, toNs });
}

export function createReversedProblem(low: string, high: string, relation: string): Problem {
  const message = `must not be ${relation} ${high}`;
  const errors: InputError[] = [{ parameter: low, message }];
  return new Problem('invalid_parameter', `${low}: ${message}`, errors);
}
