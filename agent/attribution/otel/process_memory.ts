/** Reads another process's memory, but only parts that are available without waiting for another machine or program. */
import { closeSync, openSync, readSync } from 'node:fs';
import { found, missing, type Outcome, type ProcessReason } from './outcome.ts';
import { type Mapping, toProcessReason } from './process_maps.ts';

export interface ProcessMemory {
  /**
   * Fills `into` with the memory at `address`; returns false if the memory is unavailable. Concurrent writes by the
   * process may or may not be included.
   */
  read(address: number, into: Uint8Array): boolean;
  close(): void;
}

export function openProcessMemory(
  pid: number,
  mappings: readonly Mapping[],
  isLocal: (device: string) => boolean,
): Outcome<ProcessMemory, ProcessReason> {
  let file: number;
  try {
    file = openSync(`/proc/${pid}/mem`, 'r');
  } catch (error) {
    return missing(toProcessReason(error));
  }
  return found({
    read(address, into) {
      if (!isCovered(mappings, address, address + into.length, isLocal)) return false;
      try {
        return readSync(file, into, 0, into.length, address) === into.length;
      } catch {
        return false; // The memory was unmapped, or its file no longer has this page.
      }
    },
    close: () => closeSync(file),
  });
}

function isCovered(
  mappings: readonly Mapping[],
  from: number,
  to: number,
  isLocal: (device: string) => boolean,
): boolean {
  let covered = from;
  for (const { start, end, device } of mappings) {
    if (end <= covered) continue;
    if (start > covered || !isLocal(device)) return false;
    covered = end;
    if (covered >= to) return true;
  }
  return false;
}
