/** Ways of learning whose an event is: each can be switched off, and says when this kernel has it not. */
import { existsSync } from 'node:fs';
import { release } from 'node:os';
import { type BpfObject, btfTypeExists } from 'libbpf-ts';
import type { CgroupHierarchy } from '../attribution/cgroups.ts';

export const LAYERS = {
  marker: 'marker lines written to /dev/null',
  otel: "OpenTelemetry's process and thread context, of programs that publish them",
  http: 'traceparent of the HTTP/1 requests that the services of --http-services read',
  environment: 'TRACEPARENT and service names of the environment that a program was started with',
  dirty_page: 'who wrote what the kernel writes back later',
  journal: "who took part in what an ext4 journal's thread writes",
  block_cgroup: 'services of write-back whose pages are not known, by the cgroup that it is charged to',
} as const;

export type LayerName = keyof typeof LAYERS;

export interface LayerState {
  name: LayerName;
  on: boolean;
  /** Why it is off. */
  reason?: string;
}

/** A tracepoint of the kernel, or of a module that is loaded. */
const hasTracepoint = (name: string, module?: string) =>
  btfTypeExists(`btf_trace_${name}`) || (module !== undefined && existsSync(`/sys/kernel/btf/${module}`));

/** Linux 7.0 and later: bpf/kernel_compat.bpf.h. */
const PREEMPTED_FROM_MAJOR = 7;

/** Programs of which a kernel has the tracepoint, or has another one for the same. */
const OPTIONAL_PROGRAMS: readonly { layer: LayerName; program: string; tracepoint: string; module?: string }[] = [
  { layer: 'http', program: 'http_process_new', tracepoint: 'task_newtask' },
  { layer: 'http', program: 'http_process_exec', tracepoint: 'sched_process_exec' },
  { layer: 'dirty_page', program: 'folio_dirtied', tracepoint: 'writeback_dirty_folio' },
  { layer: 'dirty_page', program: 'page_dirtied', tracepoint: 'writeback_dirty_page' },
  { layer: 'journal', program: 'journal_handle_start', tracepoint: 'jbd2_handle_start', module: 'jbd2' },
  { layer: 'journal', program: 'journal_commit_start', tracepoint: 'jbd2_start_commit', module: 'jbd2' },
  { layer: 'journal', program: 'journal_commit_end', tracepoint: 'jbd2_end_commit', module: 'jbd2' },
];

function reasonAgainst(layer: LayerName, hierarchy: CgroupHierarchy): string | undefined {
  if (layer === 'block_cgroup' && hierarchy !== 'v2') return 'cgroup v1 charges write-back to nobody';
  const programs = OPTIONAL_PROGRAMS.filter((optional) => optional.layer === layer);
  if (programs.length === 0 || programs.some(({ tracepoint, module }) => hasTracepoint(tracepoint, module)))
    return undefined;
  return `this kernel has no tracepoint ${programs.map(({ tracepoint }) => tracepoint).join(' or ')}`;
}

export function layerStates(without: readonly LayerName[], hierarchy: CgroupHierarchy): LayerState[] {
  return (Object.keys(LAYERS) as LayerName[]).map((name) => {
    const reason = without.includes(name) ? 'switched off' : reasonAgainst(name, hierarchy);
    return reason ? { name, on: false, reason } : { name, on: true };
  });
}

/** Before the object is loaded. */
export function applyLayers(object: BpfObject, layers: readonly LayerState[]): void {
  const isOn = (name: LayerName) => layers.some((layer) => layer.name === name && layer.on);
  object.setReadOnly('programs_are_preempted', Number.parseInt(release(), 10) >= PREEMPTED_FROM_MAJOR);
  object.setReadOnly('marker_layer', isOn('marker'));
  object.setReadOnly('otel_layer', isOn('otel'));
  object.setReadOnly('http_layer', isOn('http'));
  object.setReadOnly('environment_layer', isOn('environment'));
  object.setReadOnly('dirty_page_layer', isOn('dirty_page'));
  object.setReadOnly('block_cgroup_layer', isOn('block_cgroup'));
  for (const { layer, program, tracepoint, module } of OPTIONAL_PROGRAMS) {
    object.setAutoload(program, isOn(layer) && hasTracepoint(tracepoint, module));
  }
}
