import { loadAddon } from './addon.ts';
import { runWithBpfErrors } from './errors.ts';

export interface Features {
  /** Whether /sys/kernel/btf/vmlinux can be read. */
  readonly btf: boolean;
  /** Whether these map types are available. */
  readonly ringbuf: boolean;
  readonly taskStorage: boolean;
  /**
   * Whether these program types are available. `tracing` means that tp_btf programs load; fentry programs, which have
   * the same type, may still be refused.
   */
  readonly tracing: boolean;
  readonly rawTracepoint: boolean;
  readonly tracepoint: boolean;
  readonly kprobe: boolean;
  readonly syscall: boolean;
  /** Whether these helpers are available: bpf_ktime_get_boot_ns, bpf_loop. */
  readonly bootTime: boolean;
  readonly loop: boolean;
  /** Whether tp_btf programs may use these helpers: bpf_task_storage_get, bpf_get_current_task_btf. */
  readonly tracingTaskStorage: boolean;
  readonly tracingCurrentTask: boolean;
  /** Whether the atomic fetch-and-add instruction is available, which returns the old value (clang's -mcpu=v3). */
  readonly fetchAndAdd: boolean;
  /**
   * Whether maps and programs are charged to their creator's memory cgroup. Otherwise, they are charged to its
   * RLIMIT_MEMLOCK.
   */
  readonly memcgAccounting: boolean;
  /**
   * Whether the types of modules can be searched, which requires CAP_SYS_ADMIN. Otherwise, only the kernel's own types
   * are visible.
   */
  readonly moduleTypes: boolean;
  /** Version of the linked libbpf, such as 'v1.1'. */
  readonly libbpf: string;
}

/**
 * Probes the running kernel, which takes some milliseconds. Without CAP_PERFMON the program types are false.
 * @throws BpfError EPERM without CAP_BPF
 */
export function features(): Features {
  return runWithBpfErrors(() => loadAddon().features()) as unknown as Features;
}

/** Returns the number of possible CPUs, for which per-CPU maps are sized; the number of online CPUs may be smaller. */
export function possibleCpus(): number {
  return runWithBpfErrors(() => loadAddon().possibleCpus());
}
