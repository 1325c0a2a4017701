/**
 * Checks that the kernel has the features that recording requires. Each feature is probed; none is inferred from a
 * version.
 */
import { type Features, features } from 'libbpf-ts';
import { findTracepointProblems, REQUIRED_TRACEPOINTS } from './tracepoints.ts';

/** Required features, each with the Linux version that introduced it; vendors backport them to older versions. */
const REQUIRED_FEATURES: Partial<Record<keyof Features, string>> = {
  ringbuf: 'ring buffers (Linux 5.8)',
  bootTime: 'bpf_ktime_get_boot_ns() (5.8)',
  tracing: 'programs of type tp_btf (5.5)',
  taskStorage: 'task storage (5.11)',
  tracingTaskStorage: 'bpf_task_storage_get() in tp_btf programs (5.11)',
  tracingCurrentTask: 'bpf_get_current_task_btf() in tp_btf programs (5.11)',
  fetchAndAdd: 'atomic instructions that fetch (5.12)',
};

/**
 * Returns the names of missing features. Without CAP_PERFMON, existing features may seem to be missing.
 *
 * @throws BpfError EPERM without CAP_BPF
 */
export function findMissingFeatures(): string[] {
  const found = features();
  const wanted = Object.entries(REQUIRED_FEATURES) as [keyof Features, string][];
  return wanted.filter(([feature]) => !found[feature]).map(([, name]) => name);
}

/**
 * Returns the problems of required tracepoints: `no tracepoint ...` or `a tracepoint ... with ...`. BPF programs read
 * arguments by position, so a wrong number of arguments would yield wrong data.
 */
export function findWrongTracepoints(): string[] {
  return findTracepointProblems(REQUIRED_TRACEPOINTS).filter((problem) => problem !== undefined);
}
