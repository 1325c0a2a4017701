import { addon } from './addon.ts';
import { refusing } from './errors.ts';

export interface Features {
  /** /sys/kernel/btf/vmlinux can be read. */
  readonly btf: boolean;
  /** Map types. */
  readonly ringbuf: boolean;
  readonly taskStorage: boolean;
  /** Program types. `tracing`: tp_btf programs load; fentry, of the same type, may be refused all the same. */
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
  /** The atomic instruction that gives what it added to (clang's -mcpu=v3). */
  readonly fetchAndAdd: boolean;
  /** Maps and programs are charged to the memory cgroup of who makes them; else to its RLIMIT_MEMLOCK. */
  readonly memcgAccounting: boolean;
  /** Types of modules can be looked through, which takes CAP_SYS_ADMIN; else only the kernel's own are seen. */
  readonly moduleTypes: boolean;
  /** Version of the library inside, such as 'v1.1'. */
  readonly libbpf: string;
}

/**
 * Asks the running kernel, by trying; some milliseconds. Without CAP_PERFMON the program types read false.
 * @throws BpfError EPERM without CAP_BPF
 */
export function features(): Features {
  return refusing(() => addon.features()) as unknown as Features;
}

/**
 * Whether another task may run on a CPU while a tp_btf program runs there, so that both write to one place of a per-CPU
 * map. Undefined when there is no telling. Attaches to two tracepoints for a moment and looks.
 * @throws BpfError EPERM without CAP_BPF and CAP_PERFMON
 */
export function tracepointsArePreempted(): boolean | undefined {
  return refusing(() => addon.tracepointsArePreempted());
}

/** CPUs that this machine could have, which is what per-CPU maps are sized for; not how many are on line. */
export function possibleCpus(): number {
  return refusing(() => addon.possibleCpus());
}

/** Whether the kernel has a struct, union, typedef, enum, integer type or function of this name. */
export function btfTypeExists(name: string): boolean {
  return refusing(() => addon.btfFieldExists(name, ''));
}

/**
 * Whether a struct of the kernel has a field. `path` goes through embedded structs with dots, and through
 * anonymous ones by itself, as C does; not through pointers: btfFieldExists('task_struct', 'thread_info.flags').
 * Each call reads the kernel's BTF, some megabytes: ask at start, not in a loop.
 * @throws BpfError if the kernel has no BTF
 */
export function btfFieldExists(type: string, path: string): boolean {
  return refusing(() => addon.btfFieldExists(type, path));
}

/**
 * The value of an enumerator, also one of an enum without a name, which CO-RE cannot relocate; undefined if the kernel
 * has none of this name. Of enums of 64 bits it finds none.
 */
export function btfEnumerator(name: string): number | undefined {
  return refusing(() => addon.btfEnumerator(name));
}

/**
 * Parameters of a kernel function, or of the function type that a typedef points to; undefined if there is none of
 * this name. For a tracepoint's typedef `btf_trace_NAME` these are the tracepoint's own arguments, as a tp_btf
 * program gets them in ctx[]: the `void *__data` that the kernel puts in front is not counted.
 * btfFuncProtoArgCount('btf_trace_block_rq_issue') is 1, or 2 on older kernels.
 */
export function btfFuncProtoArgCount(name: string): number | undefined {
  return btfFuncProtoArgCounts([name])[0];
}

/**
 * Of many at once, in one reading of the kernel's types; with `module`, of those that this module has of its own.
 * @throws BpfError ENOENT: no such module is loaded, or it has no types
 */
export function btfFuncProtoArgCounts(names: readonly string[], module = ''): (number | undefined)[] {
  const counts = refusing(() => addon.btfArgumentCounts(names, module));
  return counts.map((count, i) => {
    if (count < 0) return undefined;
    return names[i]!.startsWith('btf_trace_') ? count - 1 : count;
  });
}

/**
 * Reads the clocks at one moment, in nanoseconds: into[0] CLOCK_REALTIME, into[1] CLOCK_BOOTTIME, into[2] the
 * uncertainty, and into[3], if there is one, CLOCK_MONOTONIC a little later. The wall clock's offset from
 * bpf_ktime_get_boot_ns() is into[0] - into[1], give or take into[2]. Best of 5 tries; under a microsecond.
 */
export function readClocks(into: BigInt64Array): void {
  addon.readClocks(into);
}

export interface ClockState {
  /** Whether something keeps the wall clock at the world's time. */
  readonly synchronized: boolean;
  /** What that believes to be wrong by, and at most; of no meaning when nothing does. */
  readonly estimatedErrorUs: number;
  readonly maxErrorUs: number;
}

/** What the kernel was told of the wall clock: adjtimex(2). */
export function clockState(): ClockState {
  return refusing(() => addon.clockState());
}
