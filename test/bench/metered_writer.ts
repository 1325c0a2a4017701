/** Measures what a store's writer costs this process, without the time for making the events. */
import { readFileSync, statSync } from 'node:fs';
import type { Block } from '../../bpf/schema/block.ts';
import { SIDES, type SideName, type StoreWriter } from './store_sides.ts';

export interface StoreCost {
  events: number;
  /** User time per event. */
  userNs: number;
  systemNs: number;
  /** Size of the closed file. */
  fileBytes: number;
  /** Bytes passed to write calls: includes logs, and pages that are written again. */
  writtenBytes: number;
}

export interface MeteredWriter {
  dictionary: StoreWriter;
  /** Appends the block and commits. */
  add(block: Block): void;
  close(): StoreCost;
}

export function meteredWriter(side: SideName, path: string, nowNs: () => bigint): MeteredWriter {
  const writtenBefore = writtenBytes();
  const writer = SIDES[side].openWriter(path, nowNs);
  let events = 0;
  let [user, system] = [0, 0];
  const measure = (work: () => void) => {
    const before = process.cpuUsage();
    work();
    const used = process.cpuUsage(before);
    user += used.user;
    system += used.system;
  };
  return {
    dictionary: writer,
    add(block) {
      events += block.rowCount;
      measure(() => {
        writer.append(block);
        writer.flush();
      });
    },
    close() {
      measure(writer.close);
      return {
        events,
        userNs: (user * 1e3) / events,
        systemNs: (system * 1e3) / events,
        fileBytes: statSync(path).size,
        writtenBytes: writtenBytes() - writtenBefore,
      };
    },
  };
}

function writtenBytes(): number {
  return Number(/^wchar: (\d+)$/m.exec(readFileSync('/proc/self/io', 'utf8'))![1]);
}
