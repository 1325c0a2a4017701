import { loadAddon } from './addon.ts';
import { runWithBpfErrors } from './errors.ts';
import { askKernelTypes } from './kernel_types.ts';

export { btfFuncProtoArgCounts } from './kernel_types.ts';

/**
 * Whether another task may run on a CPU while a tp_btf program runs there, so that both write to the same per-CPU map
 * value. Returns undefined if this cannot be determined. The probe attaches to two tracepoints for a moment.
 * @throws BpfError EPERM without CAP_BPF and CAP_PERFMON
 */
export function tracepointsArePreempted(): boolean | undefined {
  return askKernelTypes(() => loadAddon().tracepointsArePreempted());
}

/**
 * Reads the clocks at one moment, in nanoseconds: into[0] CLOCK_REALTIME, into[1] CLOCK_BOOTTIME, into[2] the
 * uncertainty, and into[3], if `into` is that long, CLOCK_MONOTONIC a little later. The wall clock's offset from
 * bpf_ktime_get_boot_ns() is into[0] - into[1] plus or minus into[2]. The result is the best of 5 tries, which take
 * less than a microsecond together.
 */
export function readClocks(into: BigInt64Array): void {
  loadAddon().readClocks(into);
}

export interface ClockState {
  /** Whether the wall clock is synchronized to an external time source. */
  readonly synchronized: boolean;
  /** The estimated and the maximum error of the synchronization; valid only if `synchronized`. */
  readonly estimatedErrorUs: number;
  readonly maxErrorUs: number;
}

/** Returns the kernel's state of the wall clock: adjtimex(2). */
export function clockState(): ClockState {
  return runWithBpfErrors(() => loadAddon().clockState());
}
