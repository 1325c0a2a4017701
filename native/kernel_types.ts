import { loadAddon } from './addon.ts';
import { runWithBpfErrors } from './errors.ts';

/** Whether the kernel has a struct, union, typedef, enum, integer type or function of this name. */
export function btfTypeExists(name: string): boolean {
  return askKernelTypes(() => loadAddon().btfFieldExists(name, ''));
}

/**
 * Whether a struct of the kernel has a field. `path` enters embedded structs with dots, and anonymous structs
 * implicitly, as in C. It does not follow pointers: btfFieldExists('task_struct', 'thread_info.flags'). The kernel's
 * BTF, some megabytes, is read once for all calls in one turn of the event loop, so make all calls together at the
 * start.
 * @throws BpfError if the kernel has no BTF
 */
export function btfFieldExists(type: string, path: string): boolean {
  return askKernelTypes(() => loadAddon().btfFieldExists(type, path));
}

/**
 * Returns the value of an enumerator, also in an anonymous enum, which CO-RE cannot relocate. Returns undefined if the
 * kernel has no enumerator of this name. Does not search 64-bit enums.
 */
export function btfEnumerator(name: string): number | undefined {
  return askKernelTypes(() => loadAddon().btfEnumerator(name));
}

/**
 * Returns the number of parameters of a kernel function, or of the function type that a typedef points to. Returns
 * undefined if there is no function or typedef of this name. For a tracepoint's typedef `btf_trace_NAME`, counts the
 * tracepoint's own arguments, as a tp_btf program gets them in ctx[], without the kernel's leading `void *__data`.
 * btfFuncProtoArgCount('btf_trace_block_rq_issue') is 1, or 2 on older kernels.
 */
export function btfFuncProtoArgCount(name: string): number | undefined {
  return btfFuncProtoArgCounts([name])[0];
}

/**
 * Works like `btfFuncProtoArgCount` for many names; with `module`, also searches that module's types.
 * @throws BpfError ENOENT: no such module is loaded, or it has no types
 */
export function btfFuncProtoArgCounts(names: readonly string[], module = ''): (number | undefined)[] {
  const counts = askKernelTypes(() => loadAddon().btfArgumentCounts(names, module));
  return counts.map((count, i) => {
    if (count < 0) return undefined;
    return names[i]!.startsWith('btf_trace_') ? count - 1 : count;
  });
}

let hasTypes = false;

/** Runs a query on the kernel's types. The types stay loaded for further queries in this turn of the event loop. */
export function askKernelTypes<Answer>(ask: () => Answer): Answer {
  const { dropKernelTypes } = loadAddon();
  if (!hasTypes) {
    hasTypes = true;
    setImmediate(() => {
      hasTypes = false;
      dropKernelTypes();
    });
  }
  return runWithBpfErrors(ask);
}
