/** Checks whether the times of this host's events can be compared with another host's. */
import { type ClockState, clockState } from 'libbpf-ts';
import type { Check } from './check.ts';

export function clock({ synchronized, estimatedErrorUs, maxErrorUs }: ClockState = clockState()): Check {
  const facts = { synchronized, estimated_error_us: estimatedErrorUs, max_error_us: maxErrorUs };
  const name = 'clock';
  if (!synchronized) {
    return {
      name,
      state: 'warning',
      text: 'nothing keeps the wall clock at the time of other hosts',
      advice: 'run chrony or systemd-timesyncd, or give the difference to `kreplay replay --clock-offset`',
      facts,
    };
  }
  const errors = `wrong by ${estimatedErrorUs / 1e3} ms as it believes, by ${maxErrorUs / 1e3} ms at most`;
  return { name, state: 'ok', text: `synchronised, ${errors}`, facts };
}
