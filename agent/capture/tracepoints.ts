/** Tracepoints that the programs attach to, looked up in this kernel's type information. */
import { existsSync } from 'node:fs';
import { btfFuncProtoArgCounts } from 'libbpf-ts/kernel';

export interface Tracepoint {
  name: string;
  /** Module that defines the tracepoint, if the kernel itself does not. */
  module?: string;
  /** Number of arguments that the programs read, by position. */
  reads: number;
  /**
   * Whether additional arguments make the tracepoint unusable. In the block layer before Linux 5.11 (a54895fa057c), the
   * additional argument comes first.
   */
  noMore?: boolean;
}

/** Tracepoints that recording requires. */
export const REQUIRED_TRACEPOINTS: readonly Tracepoint[] = [
  { name: 'sys_enter', reads: 2 },
  { name: 'sys_exit', reads: 2 },
  { name: 'task_newtask', reads: 2 },
  { name: 'sched_process_exec', reads: 2 },
  { name: 'sched_process_exit', reads: 1 },
  { name: 'block_rq_issue', reads: 1, noMore: true },
  { name: 'block_rq_complete', reads: 3, noMore: true },
  { name: 'block_getrq', reads: 1, noMore: true },
  { name: 'block_bio_backmerge', reads: 1, noMore: true },
  { name: 'block_bio_frontmerge', reads: 1, noMore: true },
];

export const buildModuleTypesPath = (module: string) => `/sys/kernel/btf/${module}`;

/** Returns for each tracepoint why attaching to it is impossible, or undefined if it is possible. */
export function findTracepointProblems(tracepoints: readonly Tracepoint[]): (string | undefined)[] {
  const counts = btfFuncProtoArgCounts(tracepoints.map(({ name }) => `btf_trace_${name}`));
  return tracepoints.map((tracepoint, i) => {
    const { name, reads, noMore } = tracepoint;
    const count = counts[i] ?? countInModule(tracepoint);
    if (count === undefined) return `no tracepoint ${name}`;
    if (count === reads || (count > reads && !noMore)) return undefined;
    return `a tracepoint ${name} with ${count} arguments instead of ${reads}`;
  });
}

/** Whether the kernel itself has the tracepoint, so that attaching to it takes no additional capability. */
export function isOfKernel(tracepoint: string): boolean {
  return btfFuncProtoArgCounts([`btf_trace_${tracepoint}`])[0] !== undefined;
}

function countInModule({ name, module }: Tracepoint): number | undefined {
  if (module === undefined || !existsSync(buildModuleTypesPath(module))) return undefined;
  return btfFuncProtoArgCounts([`btf_trace_${name}`], module)[0];
}
