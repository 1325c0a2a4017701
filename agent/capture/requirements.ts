/** What a kernel must have for anything to be recorded. All of it is tried, none told by a version. */
import { type Features, features } from 'libbpf-ts';
import { REQUIRED_TRACEPOINTS, tracepointProblems } from './tracepoints.ts';

/** With the Linux that brought each, which vendors add to older ones. */
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
 * What is missing; empty: nothing.
 * @throws BpfError EPERM without CAP_BPF; without CAP_PERFMON more seems missing than is
 */
export function missingInKernel(): string[] {
  const found = features();
  const wanted = Object.entries(REQUIRED_FEATURES) as [keyof Features, string][];
  const problems = tracepointProblems(REQUIRED_TRACEPOINTS);
  return [
    ...wanted.filter(([feature]) => !found[feature]).map(([, name]) => name),
    ...problems.filter((problem) => problem !== undefined).map((problem) => problem.replace(/^no /, '')),
  ];
}
