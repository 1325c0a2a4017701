/** The part of a filter that the kernel side applies before it spends any work on an event: bpf/filter.bpf.h. */
import type { BpfMap } from 'libbpf-ts';
import { readClocks } from 'libbpf-ts/kernel';
import { FILTER_FLAGS, FILTER_VERDICTS } from '../../bpf/schema/filter.ts';
import { EVENTS } from '../../bpf/schema/index.ts';
import { asksForProcesses } from './process_filter.ts';
import type { FilterSettings, List } from './settings.ts';

export interface FilterMaps {
  settings: BpfMap;
  pids: BpfMap;
  comms: BpfMap;
  /** Ids of the process definitions whose unlabelled events the filter rejects. */
  processes: BpfMap;
}

export interface KernelFilter {
  /**
   * Changes the filter while BPF programs run. For a moment, they see some lists of the old filter and some of the new
   * filter. Events that both filters accept are recorded throughout, if the maps have room for the lists of both
   * filters.
   */
  apply(settings: FilterSettings): void;
  /**
   * Drops the unlabelled events of a process definition in the kernel. Without this, the recorder would drop them
   * later.
   */
  dropProcess(processId: number): void;
  /** Undoes `dropProcess`. */
  keepProcess(processId: number): void;
}

const COMM_BYTES = 16;

const encodePidKey = (pid: string | number) => new Uint8Array(Uint32Array.of(Number(pid)).buffer);

const encodeProcessKey = (id: number) => new Uint8Array(BigUint64Array.of(BigInt(id)).buffer);
const DROPPED = Uint8Array.of(1);

/** Encodes a command's name, cut to 15 bytes as in the kernel. */
function encodeCommKey(comm: string): Uint8Array {
  const key = new Uint8Array(COMM_BYTES);
  key.set(Buffer.from(comm).subarray(0, COMM_BYTES - 1));
  return key;
}

export function createKernelFilter(maps: FilterMaps): KernelFilter {
  const pidValue = createPidValues();
  return {
    apply(settings) {
      for (const id of maps.processes.keys()) maps.processes.delete(id);
      const removals = [
        add(maps.pids, settings.pids, encodePidKey, pidValue(settings.pids)),
        add(maps.comms, settings.comms, encodeCommKey, (_, verdict) => Uint8Array.of(verdict)),
      ];
      maps.settings.set(new Uint8Array(4), encodeSettings(settings));
      for (const removeRest of removals) removeRest();
    },
    dropProcess(processId) {
      maps.processes.set(encodeProcessKey(processId), DROPPED);
    },
    keepProcess(processId) {
      maps.processes.delete(encodeProcessKey(processId));
    },
  };
}

type EncodeItem = (item: string, verdict: number) => Uint8Array;

/**
 * Returns a function that encodes `struct filter_pid`. A pid stands for the process that had it when a list first named
 * the pid. So after a reload, the filter does not apply to a later process with the same pid.
 */
function createPidValues(): (list: List) => EncodeItem {
  const clocks = new BigInt64Array(4);
  let startedByNs = new Map<string, bigint>();
  return ({ only, except }) => {
    readClocks(clocks);
    const [, bootNs] = clocks;
    startedByNs = new Map([...only, ...except].map((pid) => [pid, startedByNs.get(pid) ?? bootNs!]));
    return (pid, verdict) => {
      const value = new DataView(new ArrayBuffer(16));
      value.setBigUint64(0, startedByNs.get(pid)!, true);
      value.setUint8(8, verdict);
      return new Uint8Array(value.buffer);
    };
  };
}

/** Adds the list's items to the map; returns a function that removes all other items. */
function add(
  map: BpfMap,
  { only, except }: List,
  encodeKey: (item: string) => Uint8Array,
  encode: EncodeItem,
): () => void {
  const encodeItems = (list: ReadonlySet<string>, verdict: number) =>
    [...list].map((item) => ({ key: encodeKey(item), value: encode(item, verdict) }));
  const items = [
    ...encodeItems(only, FILTER_VERDICTS.FILTER_ONLY),
    ...encodeItems(except, FILTER_VERDICTS.FILTER_EXCEPT),
  ];
  const listed = new Set(items.map(({ key }) => Buffer.from(key).toString('latin1')));
  const rest = [...map.keys()].filter((key) => !listed.has(Buffer.from(key).toString('latin1')));
  const removeRest = () => {
    for (const key of rest.splice(0)) map.delete(key);
  };
  // If the map has no room for both lists, the other items are removed first. For a moment, even events that both
  // filters accept are then left out.
  if (listed.size + rest.length > map.info.maxEntries) removeRest();
  for (const { key, value } of items) map.set(key, value);
  return removeRest;
}

/** Encodes `struct filter_settings`. */
function encodeSettings(settings: FilterSettings): Uint8Array {
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
