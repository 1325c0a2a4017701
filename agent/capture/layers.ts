/**
 * Attribution layers: ways to find an event's owner. Each layer can be disabled, and reports why this kernel lacks it.
 */
import { type BpfObject, btfEnumerator } from 'libbpf-ts';
import { tracepointsArePreempted } from 'libbpf-ts/kernel';
import type { CgroupHierarchy } from '../attribution/cgroups.ts';
import { type Capability, findMissingCapabilities } from './capabilities.ts';
import { findTracepointProblems, isOfKernel, type Tracepoint } from './tracepoints.ts';

export const LAYERS = {
  marker: 'marker lines written to /dev/null',
  otel: "OpenTelemetry's process and thread context, of programs that publish them",
  http: 'traceparent of the HTTP/1 requests that the services of --http-services read',
  environment: 'TRACEPARENT and service names of the environment that a program was started with',
  dirty_page: 'which process wrote the data that the kernel writes back later',
  journal: 'which processes took part in what the thread of an ext4 journal writes',
  block_cgroup: 'services of write-back whose pages are not known, by the cgroup that it is charged to',
} as const;

export type LayerName = keyof typeof LAYERS;

export interface LayerState {
  name: LayerName;
  on: boolean;
  /** Why the layer is off. */
  reason?: string;
  /** Parts of the layer that are unavailable for lack of capabilities. */
  without?: readonly LayerPart[];
}

interface LayerPart {
  part: string;
  missing: readonly Capability[];
}

/** Programs whose tracepoint may be missing in a kernel, or have another name. */
const OPTIONAL_PROGRAMS: readonly { layer: LayerName; program: string; tracepoint: Tracepoint }[] = [
  { layer: 'http', program: 'http_process_new', tracepoint: { name: 'task_newtask', reads: 2 } },
  { layer: 'http', program: 'http_process_exec', tracepoint: { name: 'sched_process_exec', reads: 1 } },
  { layer: 'http', program: 'http_task_exit', tracepoint: { name: 'sched_process_exit', reads: 1 } },
  { layer: 'dirty_page', program: 'folio_dirtied', tracepoint: { name: 'writeback_dirty_folio', reads: 2 } },
  { layer: 'dirty_page', program: 'page_dirtied', tracepoint: { name: 'writeback_dirty_page', reads: 2 } },
  { layer: 'dirty_page', program: 'buffer_dirtied', tracepoint: { name: 'block_dirty_buffer', reads: 1 } },
  { layer: 'dirty_page', program: 'iomap_written', tracepoint: { name: 'iomap_iter', reads: 1 } },
  { layer: 'journal', program: 'journal_handle_restart', tracepoint: createJournalTracepoint('jbd2_handle_restart') },
  { layer: 'journal', program: 'journal_handle_start', tracepoint: createJournalTracepoint('jbd2_handle_start') },
  { layer: 'journal', program: 'journal_commit_start', tracepoint: createJournalTracepoint('jbd2_start_commit') },
  { layer: 'journal', program: 'journal_commit_end', tracepoint: createJournalTracepoint('jbd2_end_commit') },
];

function createJournalTracepoint(name: string): Tracepoint {
  return { name, module: 'jbd2', reads: 2 };
}

/** Layers that need only one of their programs; any other layer needs all of its programs. */
const EITHER_OF: readonly LayerName[] = ['dirty_page'];

const OF_OTHER_USERS: readonly Capability[] = ['CAP_SYS_PTRACE', 'CAP_DAC_READ_SEARCH'];

/**
 * Data that a layer reads in /proc in addition to the records of BPF programs, and the capabilities that are needed to
 * read it.
 */
const PARTS: Partial<Record<LayerName, readonly { part: string; takes: readonly Capability[] }[]>> = {
  otel: [
    { part: "other users' processes", takes: OF_OTHER_USERS },
    { part: "threads' contexts", takes: ['CAP_CHECKPOINT_RESTORE'] },
  ],
  http: [
    { part: "other users' processes", takes: ['CAP_SYS_PTRACE'] },
    { part: 'their requests before a first write, when they ran before the agent', takes: ['CAP_DAC_READ_SEARCH'] },
  ],
  environment: [{ part: "other users' environments of more than 256 variables", takes: OF_OTHER_USERS }],
};

function findMissingParts(layer: LayerName): LayerPart[] {
  const parts = PARTS[layer] ?? [];
  return parts
    .map(({ part, takes }) => ({ part, missing: findMissingCapabilities(takes) }))
    .filter(({ missing }) => missing.length > 0);
}

/** Returns lines such as `not other users' processes: CAP_SYS_PTRACE missing`. */
export function describeLimits({ without = [] }: LayerState): string[] {
  return without.map(({ part, missing }) => `not ${part}: ${missing.join(' and ')} missing`);
}

type Problems = ReadonlyMap<string, string | undefined>;

function findOptionalProblems(): Problems {
  const problems = findTracepointProblems(OPTIONAL_PROGRAMS.map(({ tracepoint }) => tracepoint));
  return new Map(OPTIONAL_PROGRAMS.map(({ program }, i) => [program, problems[i]]));
}

function findLayerObstacle(layer: LayerName, hierarchy: CgroupHierarchy, problems: Problems): string | undefined {
  if (layer === 'block_cgroup' && hierarchy !== 'v2') return 'cgroup v1 does not charge write-back';
  const programs = OPTIONAL_PROGRAMS.filter((optional) => optional.layer === layer);
  const wrong = programs.map(({ program }) => problems.get(program)).filter((problem) => problem !== undefined);
  if (wrong.length > (EITHER_OF.includes(layer) ? programs.length - 1 : 0))
    return `this kernel has ${wrong.join(', ')}`;
  const inModule = programs.find(({ tracepoint: { name, module } }) => module !== undefined && !isOfKernel(name));
  if (!inModule || findMissingCapabilities(['CAP_SYS_ADMIN']).length === 0) return undefined;
  return `its tracepoints are in the module ${inModule.tracepoint.module}, and CAP_SYS_ADMIN missing`;
}

export function listLayerStates(without: readonly LayerName[], hierarchy: CgroupHierarchy): LayerState[] {
  const problems = findOptionalProblems();
  return (Object.keys(LAYERS) as LayerName[]).map((name) => {
    const reason = without.includes(name) ? 'switched off' : findLayerObstacle(name, hierarchy, problems);
    if (reason) return { name, on: false, reason };
    const parts = findMissingParts(name);
    return parts.length > 0 ? { name, on: true, without: parts } : { name, on: true };
  });
}

/**
 * Bit of RQF_FLUSH_SEQ before Linux 6.11 (5f89154e8e9e). There, the flag is a macro in include/linux/blk-mq.h and
 * missing in the type information.
 */
const FLUSH_SEQUENCE_BIT = 4;

/** Configures the object for the layers that are on. Must be called before the object is loaded. */
export function applyLayers(object: BpfObject, layers: readonly LayerState[]): void {
  const isOn = (name: LayerName) => layers.some((layer) => layer.name === name && layer.on);
  // If preemption is unknown, it is assumed: at worst, the kernel refuses the programs, and nothing wrong is recorded.
  object.setReadOnly('programs_are_preempted', tracepointsArePreempted() ?? true);
  object.setReadOnly('flush_sequence_flag', 1 << (btfEnumerator('__RQF_FLUSH_SEQ') ?? FLUSH_SEQUENCE_BIT));
  object.setReadOnly('marker_layer', isOn('marker'));
  object.setReadOnly('otel_layer', isOn('otel'));
  object.setReadOnly('http_layer', isOn('http'));
  object.setReadOnly('environment_layer', isOn('environment'));
  object.setReadOnly('dirty_page_layer', isOn('dirty_page'));
  object.setReadOnly('block_cgroup_layer', isOn('block_cgroup'));
  const problems = findOptionalProblems();
  for (const { layer, program } of OPTIONAL_PROGRAMS) {
    object.setAutoload(program, isOn(layer) && problems.get(program) === undefined);
  }
}
