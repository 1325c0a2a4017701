/** The part of a filter that the kernel side applies, before an event costs anything: bpf/filter.bpf.h. */
import type { BpfMap } from 'libbpf-ts';
import { FILTER_FLAGS, FILTER_VERDICTS } from '../../bpf/schema/filter.ts';
import { EVENTS } from '../../bpf/schema/index.ts';
import { asksForProcesses } from './process_filter.ts';
import type { FilterSettings, List } from './settings.ts';

export interface FilterMaps {
  settings: BpfMap;
  pids: BpfMap;
  comms: BpfMap;
  /** Processes whose unlabelled events are not wanted: thread group -> CLOCK_BOOTTIME that it had started by. */
  processes: BpfMap;
}

export interface KernelFilter {
  /**
   * Programs go on running: for a moment they see some lists of the old and some of the new filter. What both want is
   * recorded all the time.
   */
  apply(settings: FilterSettings): void;
  /** Of a process whose events would be left out anyway. */
  dropProcess(pid: number, startedByNs: number): void;
}

const COMM_BYTES = 16;

const pidKey = (pid: string | number) => new Uint8Array(Uint32Array.of(Number(pid)).buffer);

/** As the kernel cuts it. */
function commKey(comm: string): Uint8Array {
  const key = new Uint8Array(COMM_BYTES);
  key.set(Buffer.from(comm).subarray(0, COMM_BYTES - 1));
  return key;
}

export function createKernelFilter(maps: FilterMaps): KernelFilter {
  return {
    apply(settings) {
      for (const pid of maps.processes.keys()) maps.processes.delete(pid);
      const removals = [add(maps.pids, settings.pids, pidKey), add(maps.comms, settings.comms, commKey)];
      maps.settings.set(new Uint8Array(4), settingsValue(settings));
      for (const removeRest of removals) removeRest();
    },
    dropProcess(pid, startedByNs) {
      maps.processes.set(pidKey(pid), new Uint8Array(BigUint64Array.of(BigInt(startedByNs)).buffer));
    },
  };
}

/** Gives what takes away the items that the list does not have. */
function add(map: BpfMap, { only, except }: List, keyOf: (item: string) => Uint8Array): () => void {
  const items = [
    ...[...only].map((item) => ({ key: keyOf(item), verdict: FILTER_VERDICTS.FILTER_ONLY })),
    ...[...except].map((item) => ({ key: keyOf(item), verdict: FILTER_VERDICTS.FILTER_EXCEPT })),
  ];
  const listed = new Set(items.map(({ key }) => Buffer.from(key).toString('latin1')));
  const rest = [...map.keys()].filter((key) => !listed.has(Buffer.from(key).toString('latin1')));
  const removeRest = () => {
    for (const key of rest.splice(0)) map.delete(key);
  };
  // No room for both: for a moment what they both want is left out.
  if (listed.size + rest.length > map.info.maxEntries) removeRest();
  for (const { key, verdict } of items) map.set(key, Uint8Array.of(verdict));
  return removeRest;
}

/** `struct filter_settings`. */
function settingsValue(settings: FilterSettings): Uint8Array {
  const { minDurationNs, eventTypes, pids, comms, onlyLabelled } = settings;
  const typesOff = EVENTS.filter(({ name }) => !eventTypes.has(name)).reduce((mask, { id }) => mask | (1 << id), 0);
  const hasItems = ({ only, except }: List) => only.size + except.size > 0;
  const flags: readonly [flag: number, on: boolean][] = [
    [FILTER_FLAGS.FILTER_PIDS, hasItems(pids)],
    [FILTER_FLAGS.FILTER_ONLY_PIDS, pids.only.size > 0],
    [FILTER_FLAGS.FILTER_COMMS, hasItems(comms)],
    [FILTER_FLAGS.FILTER_ONLY_COMMS, comms.only.size > 0],
    [FILTER_FLAGS.FILTER_ONLY_LABELLED, onlyLabelled],
    [FILTER_FLAGS.FILTER_PROCESSES, asksForProcesses(settings)],
  ];
  const value = new Uint8Array(16);
  const view = new DataView(value.buffer);
  view.setBigUint64(0, minDurationNs, true);
  view.setUint32(8, typesOff, true);
  view.setUint32(
    12,
    flags.reduce((bits, [flag, on]) => (on ? bits | flag : bits), 0),
    true,
  );
  return value;
}
