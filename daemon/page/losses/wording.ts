/** Describes in words how many events an answer lacks. */
import type { ReceivedCoverage } from '../../contract/received.ts';
import { formatQuantity, percentText } from '../../model/wording/amounts.ts';

/**
 * Formats the losses of an incomplete answer as `2 109 events lost in 131 gaps (0.03 %)`. The share is left out if it
 * is unknown, or if there are several causes or nodes.
 */
export function describeLosses({ lost, losses }: ReceivedCoverage): string {
  const what = lost > 0 ? `${formatQuantity(lost, 'event')} lost` : 'uncounted events lost';
  const gaps = losses.reduce((sum, { gap_count }) => sum + gap_count, 0);
  const rate = losses.length === 1 && losses[0]!.rate;
  const share = rate && rate.lost === lost ? ` (${percentText(rate.share)})` : '';
  return `${what} in ${formatQuantity(gaps, 'gap')}${share}`;
}

/** Formats the beginning of a sentence about an incomplete answer: `At least 12 events are missing`. */
export function beginMissing({ lost }: ReceivedCoverage, whose = ''): string {
  const what = lost > 0 ? `At least ${formatQuantity(lost, 'event')}` : 'Events, nobody could count how many,';
  return `${what}${whose} ${lost === 1 ? 'is' : 'are'} missing`;
}
