/** Checks the size of the ring, by a sample of this host's events or by what a running agent has seen. */
import type { AgentReport } from '../../bpf/schema/agent_report.ts';
import { formatBytes, threeDigits } from '../output/amounts.ts';
import type { Check } from './check.ts';
import type { Sample } from './trial.ts';

const MEBIBYTE = 1 << 20;
/** The agent may be kept from draining for this long by other processes that want the CPU, or by a slow disk. */
const STALL_SECONDS = 2;
/** A running agent's ring should stay emptier than this, as the next burst may be larger. */
const FULL_SHARE = 0.5;

/** The power of two to pass to `--ring-size`. */
function ringMebibytes(bytes: number): number {
  return 2 ** Math.max(0, Math.ceil(Math.log2(bytes / MEBIBYTE)));
}

export function ringBySample({ events, bytes, seconds, peakBytesPerSecond }: Sample, ringBytes: number): Check {
  const rate = events / seconds;
  const holds = ringBytes / Math.max(peakBytesPerSecond, 1);
  const enough = holds >= STALL_SECONDS;
  const text =
    `${threeDigits(rate)} events/s (${formatBytes(bytes / seconds)}/s) in ${threeDigits(seconds)} s, ` +
    `at most ${formatBytes(peakBytesPerSecond)}/s: ${ringBytes / MEBIBYTE} MiB hold ` +
    (holds > 60 ? 'more than a minute of that' : `${threeDigits(holds)} s of that`);
  const advised = ringMebibytes(peakBytesPerSecond * STALL_SECONDS);
  return {
    name: 'event ring',
    state: enough ? 'ok' : 'warning',
    text,
    ...(!enough && { advice: `--ring-size ${advised}, for ${STALL_SECONDS} s of it` }),
    facts: { events_per_second: rate, peak_bytes_per_second: peakBytesPerSecond, ring_bytes: ringBytes },
  };
}

export function ringOfAgent({ ring, recorded, lost, start_time_seconds }: AgentReport, nowMs: number): Check {
  const seconds = Math.max(nowMs / 1e3 - start_time_seconds, 1);
  const rate = Object.values(recorded).reduce((sum, count) => sum + count, 0) / seconds;
  const lostInRing = lost.filter(({ cause }) => cause === 'ring_full').reduce((sum, { count }) => sum + count, 0);
  const share = ring.peak_bytes / ring.size_bytes;
  const enough = share < FULL_SHARE && lostInRing === 0;
  const size = ring.size_bytes / MEBIBYTE;
  return {
    name: 'event ring',
    state: enough ? 'ok' : 'warning',
    text:
      `the agent that records here has taken ${threeDigits(rate)} events/s since its start; ` +
      `its ring of ${size} MiB was ${Math.round(share * 100)} % full at most in the last minute, ` +
      `and lost ${lostInRing} since its start`,
    ...(!enough && { advice: `start it with --ring-size ${size * 2}` }),
    facts: { events_per_second: rate, ring_bytes: ring.size_bytes, peak_bytes: ring.peak_bytes, lost: lostInRing },
  };
}
