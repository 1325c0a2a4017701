import { loadAddon } from './addon.ts';
import { runWithBpfErrors } from './errors.ts';

export interface Features {
  /** /sys/kernel/btf/vmlinux can be read. */
  readonly btf: boolean;
  /** Map types. */
  readonly ringbuf: boolean;
  readonly taskStorage: boolean;
  /** Program types. `tracing` means that tp_btf programs load; fentry, of the same type, may still be refused. */
  readonly tracing: boolean;
  readonly rawTracepoint: boolean;
  readonly tracepoint: boolean;
  readonly kprobe: boolean;
  readonly syscall: boolean;
  /** Helpers: bpf_ktime_get_boot_ns, bpf_loop. */
  readonly bootTime: boolean;
  readonly loop: boolean;
  /** Helpers of tp_btf programs: bpf_task_storage_get, bpf_get_current_task_btf. */
  readonly tracingTaskStorage: boolean;
  readonly tracingCurrentTask: boolean;
  /** The atomic fetch-and-add instruction, which returns the old value (clang's -mcpu=v3). */
  readonly fetchAndAdd: boolean;
  /** Maps and programs are charged to their creator's memory cgroup; otherwise to its RLIMIT_MEMLOCK. */
  readonly memcgAccounting: boolean;
  /** Types of modules can be searched, which requires CAP_SYS_ADMIN; otherwise only the kernel's own are visible. */
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

/** The number of possible CPUs, for which per-CPU maps are sized; not the number of online CPUs. */
export function possibleCpus(): number {
  return runWithBpfErrors(() => loadAddon().possibleCpus());
}
