/** Prints warnings about missing events to stderr, so that nobody takes an incomplete answer for a complete one. */

import { escapeControls } from '../../../agent/output/printable.ts';
import { LOSS_CAUSES, type LossCause } from '../../../bpf/schema/losses.ts';
import { formatTime } from '../../base/time_text.ts';
import type { LossSum, ReceivedCoverage } from '../../contract/received.ts';
import { formatBytes, percentText } from '../../model/wording/amounts.ts';
import { formatShortDuration } from '../../model/wording/exact_times.ts';
import { callDaemon, readJson } from './connection.ts';

const UNENDED_SHOWN_MAX = 5;

/** Requests the coverage for a query whose answer does not contain it, and prints a warning if events are missing. */
export async function warnOfLosses(url: string, query: URLSearchParams): Promise<void> {
  const res = await callDaemon(url, { path: `/api/events?${new URLSearchParams([...query, ['limit', '1']])}` });
  warnIfIncomplete(((await readJson(res)) as { coverage: ReceivedCoverage }).coverage);
}

/** Prints one line for each cause and node with missing events; prints nothing if the answer is complete. */
export function warnIfIncomplete({ complete, losses, in_progress }: ReceivedCoverage): void {
  if (complete) return;
  const areOfSeveral = losses.some(({ node }) => node !== losses[0]?.node);
  for (const loss of losses) {
    const { cause, node } = loss;
    const reason = Object.hasOwn(LOSS_CAUSES, cause) ? LOSS_CAUSES[cause as LossCause] : cause;
    const where = areOfSeveral && typeof node === 'string' ? ` on ${escapeControls(node)}` : '';
    process.stderr.write(
      `kreplay: warning: ${describeLoss(loss)}${where}: ${escapeControls(reason)}${describeSums(loss)}\n`,
    );
  }
  if (in_progress) warnOfUnended(in_progress);
}

/** Minimum share of lost events that needs attention; the time of the losses is then printed too. */
const LARGE_SHARE = 0.01;

/**
 * Formats a loss, such as `2,109 of 7,960,433 events are missing (0.03 %)`. If the share is unknown or large, the text
 * also gives the time of the loss.
 */
function describeLoss({ lost: total, gap_count, from, to, rate }: LossSum): string {
  const lost = BigInt(total);
  const places = gap_count > 1 ? `in ${formatCount(BigInt(gap_count))} places ` : '';
  const time = `${places}from ${formatTime(BigInt(from))} to ${formatTime(BigInt(to))}`;
  if (lost === 0n) return `events may be missing ${time}`;
  const are = lost === 1n ? 'is' : 'are';
  // The share is not used if it covers only a part of the lost events.
  if (!rate || BigInt(rate.lost) !== lost)
    return `${formatCount(lost)} ${lost === 1n ? 'event' : 'events'} ${are} missing ${time}`;
  const all = lost + BigInt(rate.recorded);
  const share = `${formatCount(lost)} of ${formatCount(all)} events ${are} missing (${percentText(rate.share)})`;
  return rate.share < LARGE_SHARE ? share : `${share} ${time}`;
}

/** Describes what is known of missing calls besides their number, such as `; they wrote 8 KiB in 1.04 ms altogether`. */
function describeSums({ bytes, duration_ns, longest_ns }: LossSum): string {
  if (bytes === undefined || duration_ns === undefined || longest_ns === undefined) return '';
  const [time, longest] = [duration_ns, longest_ns].map(formatShortDuration);
  return `; they wrote ${formatBytes(bytes)} in ${time} altogether, in up to ${longest} each`;
}

const formatCount = (count: bigint) => count.toLocaleString('en-US');

function warnOfUnended({ count, events }: NonNullable<ReceivedCoverage['in_progress']>): void {
  for (const event of events.slice(0, UNENDED_SHOWN_MAX)) {
    const { syscall, file, operation, device, comm, pid, transaction_id, timestamp_ns } = event;
    const call = file ? `${syscall} of ${file}` : syscall;
    const what = syscall === undefined ? `${operation} request to ${device}` : call;
    const whose = transaction_id === null ? '' : ` for ${transaction_id}`;
    const by = escapeControls(`${what} by ${comm} (pid ${pid})${whose}`);
    process.stderr.write(`kreplay:   in progress since ${formatTime(BigInt(timestamp_ns))}: ${by}\n`);
  }
  const rest = BigInt(count) - BigInt(Math.min(events.length, UNENDED_SHOWN_MAX));
  if (rest > 0n) process.stderr.write(`kreplay:   and ${rest} more in progress\n`);
}
