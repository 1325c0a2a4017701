/**
 * Warns about missing events on stderr, so that an incomplete answer in a pipeline is not mistaken for a complete one.
 */

import { escapeControls } from '../../../agent/output/printable.ts';
import { LOSS_CAUSES, type LossCause } from '../../../bpf/schema/losses.ts';
import type { Coverage } from '../../contract/received.ts';
import { formatTime } from '../print/display.ts';
import { callDaemon, readJson } from './connection.ts';

const GAPS_SHOWN_MAX = 5;

/** Requests the coverage of an answer that does not contain it, and prints a warning if events are missing. */
export async function warnOfLosses(url: string, query: URLSearchParams): Promise<void> {
  const res = await callDaemon(url, { path: `/api/events?${new URLSearchParams([...query, ['limit', '1']])}` });
  warnIfIncomplete(((await readJson(res)) as { coverage: Coverage }).coverage);
}

/** Reports what is missing and why; prints nothing if the answer is complete. */
export function warnIfIncomplete({ complete, lost, gaps: all, in_progress }: Coverage): void {
  if (complete) return;
  const what = BigInt(lost) === 0n ? 'may be missing events' : `is missing ${lost} events`;
  process.stderr.write(`kreplay: warning: the recording ${what} in this window\n`);
  if (in_progress) warnOfUnended(in_progress);
  const described = in_progress?.events.length === Number(in_progress?.count);
  const oldestNs = in_progress && BigInt(in_progress.oldest);
  const gaps = all.filter(({ cause, from }) => !(described && cause === 'in_progress' && BigInt(from) >= oldestNs!));
  const areOfSeveral = gaps.some(({ node }) => node !== gaps[0]?.node);
  for (const gap of gaps.slice(0, GAPS_SHOWN_MAX)) {
    const reason = Object.hasOwn(LOSS_CAUSES, gap.cause) ? LOSS_CAUSES[gap.cause as LossCause] : gap.cause;
    const from = formatTime(BigInt(gap.from));
    const to = formatTime(BigInt(gap.to));
    const count = BigInt(gap.lost) === 0n ? '' : `${gap.lost} `;
    const where = areOfSeveral && gap.node !== null ? ` on ${escapeControls(gap.node)}` : '';
    process.stderr.write(`kreplay:   ${count}from ${from} to ${to}${where}: ${escapeControls(reason)}\n`);
  }
  const rest = gaps.length - GAPS_SHOWN_MAX;
  if (rest > 0) process.stderr.write(`kreplay:   and ${rest} more gaps\n`);
}

function warnOfUnended({ count, events }: NonNullable<Coverage['in_progress']>): void {
  for (const event of events.slice(0, GAPS_SHOWN_MAX)) {
    const { syscall, file, operation, device, comm, pid, transaction_id, timestamp_ns } = event;
    const call = file ? `${syscall} of ${file}` : syscall;
    const what = syscall === undefined ? `${operation} request to ${device}` : call;
    const whose = transaction_id === null ? '' : ` for ${transaction_id}`;
    const by = escapeControls(`${what} by ${comm} (pid ${pid})${whose}`);
    process.stderr.write(`kreplay:   in progress since ${formatTime(BigInt(timestamp_ns))}: ${by}\n`);
  }
  const rest = BigInt(count) - BigInt(Math.min(events.length, GAPS_SHOWN_MAX));
  if (rest > 0n) process.stderr.write(`kreplay:   and ${rest} more in progress\n`);
}
