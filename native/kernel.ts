import { addon } from './addon.ts';
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
  return runWithBpfErrors(() => addon.features()) as unknown as Features;
}

/**
 * Whether another task may run on a CPU while a tp_btf program runs there, so that both write to the same per-CPU map
 * value. It is undefined when this cannot be determined. The probe attaches to two tracepoints for a moment.
 * @throws BpfError EPERM without CAP_BPF and CAP_PERFMON
 */
export function tracepointsArePreempted(): boolean | undefined {
  return askKernelTypes(() => addon.tracepointsArePreempted());
}

/** The number of possible CPUs, for which per-CPU maps are sized; not the number of online CPUs. */
export function possibleCpus(): number {
  return runWithBpfErrors(() => addon.possibleCpus());
}

/** Whether the kernel has a struct, union, typedef, enum, integer type or function of this name. */
export function btfTypeExists(name: string): boolean {
  return askKernelTypes(() => addon.btfFieldExists(name, ''));
}

/**
 * Whether a struct of the kernel has a field. `path` enters embedded structs with dots, and anonymous ones implicitly,
 * as C does; it does not follow pointers: btfFieldExists('task_struct', 'thread_info.flags'). The kernel's BTF,
 * some megabytes, is read once for all calls of one turn of the event loop: call it at start, not now and then.
 * @throws BpfError if the kernel has no BTF
 */
export function btfFieldExists(type: string, path: string): boolean {
  return askKernelTypes(() => addon.btfFieldExists(type, path));
}

/**
 * The value of an enumerator, also in an anonymous enum, which CO-RE cannot relocate; undefined if the kernel has none
 * of this name. It does not search 64-bit enums.
 */
export function btfEnumerator(name: string): number | undefined {
  return askKernelTypes(() => addon.btfEnumerator(name));
}

/**
 * The number of parameters of a kernel function, or of the function type that a typedef points to; undefined if there
 * is none of this name. For a tracepoint's typedef `btf_trace_NAME` it counts the tracepoint's own arguments, as a
 * tp_btf program gets them in ctx[]: the kernel's leading `void *__data` is not counted.
 * btfFuncProtoArgCount('btf_trace_block_rq_issue') is 1, or 2 on older kernels.
 */
export function btfFuncProtoArgCount(name: string): number | undefined {
  return btfFuncProtoArgCounts([name])[0];
}

/**
 * The same for many names; with `module`, it also searches that module's types.
 * @throws BpfError ENOENT: no such module is loaded, or it has no types
 */
export function btfFuncProtoArgCounts(names: readonly string[], module = ''): (number | undefined)[] {
  const counts = askKernelTypes(() => addon.btfArgumentCounts(names, module));
  return counts.map((count, i) => {
    if (count < 0) return undefined;
    return names[i]!.startsWith('btf_trace_') ? count - 1 : count;
  });
}

/**
 * Reads the clocks at one moment, in nanoseconds: into[0] CLOCK_REALTIME, into[1] CLOCK_BOOTTIME, into[2] the
 * uncertainty, and into[3], if `into` is that long, CLOCK_MONOTONIC a little later. The wall clock's offset from
 * bpf_ktime_get_boot_ns() is into[0] - into[1] plus or minus into[2]. It is the best of 5 tries and takes under a
 * microsecond.
 */
export function readClocks(into: BigInt64Array): void {
  addon.readClocks(into);
}

export interface ClockState {
  /** Whether the wall clock is synchronized to an external time source. */
  readonly synchronized: boolean;
  /** The estimated and the maximum error of the synchronization; meaningless unless `synchronized`. */
  readonly estimatedErrorUs: number;
  readonly maxErrorUs: number;
}

/** The kernel's state of the wall clock: adjtimex(2). */
export function clockState(): ClockState {
  return runWithBpfErrors(() => addon.clockState());
}

let hasTypes = false;

/** Asks for something that the kernel's types show; they are kept for what else is asked in this turn. */
function askKernelTypes<Answer>(ask: () => Answer): Answer {
  if (!hasTypes) {
    hasTypes = true;
    setImmediate(() => {
      hasTypes = false;
      addon.dropKernelTypes();
    });
  }
  return runWithBpfErrors(ask);
}
