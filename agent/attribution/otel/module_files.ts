/** The files of mapped programs and libraries, opened by their mappings: whatever has become of their paths. */
import { type BigIntStats, closeSync, constants, fstatSync, openSync, readSync, statSync } from 'node:fs';
import { type Elf, type ReadAt, readElf } from './elf.ts';
import { type Mapping, reasonOf } from './process_maps.ts';

/** Files that do not have what was asked for. The libraries of a host are some hundred. */
const NEGATIVES_MAX = 1 << 14;

/** What a read costs beside its bytes, in bytes: many small ones take time, too. */
const READ_COST_BYTES = 512;

/** Of one process; the bytes that may still be read. Negative: they were not enough. */
export interface Budget {
  bytes: number;
}

export type FileProblem = 'not_permitted' | 'unreadable';

export interface ModuleFiles {
  /**
   * What `examine` makes of the file behind a mapping. Undefined is remembered for the file as it is now, and is the
   * answer from then on: always ask the same question.
   */
  examine<Result extends object | string>(
    pid: number,
    mapping: Mapping,
    budget: Budget,
    examine: (elf: Elf) => Result | undefined,
  ): Result | FileProblem | undefined;
}

export function createModuleFiles(): ModuleFiles {
  const negatives = new Set<string>();

  function remember(identity: string): void {
    // The oldest goes.
    if (negatives.size >= NEGATIVES_MAX) negatives.delete(negatives.values().next().value!);
    negatives.add(identity);
  }

  return {
    examine(pid, { start, end }, budget, examine) {
      const path = `/proc/${pid}/map_files/${start.toString(16)}-${end.toString(16)}`;
      let file: number | undefined;
      try {
        const stat = statSync(path, { bigint: true });
        const identity = identityOf(stat);
        // Opening a device may do anything.
        if ((Number(stat.mode) & constants.S_IFMT) !== constants.S_IFREG || negatives.has(identity)) return undefined;
        file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
        if (identityOf(fstatSync(file, { bigint: true })) !== identity) return 'unreadable';
        const elf = readElf(readerOf(file, budget));
        const result = elf && examine(elf);
        if (result === undefined && budget.bytes >= 0) remember(identity);
        return result;
      } catch (error) {
        // Else it was unmapped since, or is gone with the process.
        return reasonOf(error) === 'not_permitted' ? 'not_permitted' : 'unreadable';
      } finally {
        if (file !== undefined) closeSync(file);
      }
    },
  };
}

function identityOf({ dev, ino, mtimeNs, size }: BigIntStats): string {
  return `${dev} ${ino} ${mtimeNs} ${size}`;
}

function readerOf(file: number, budget: Budget): ReadAt {
  return (offset, size) => {
    budget.bytes -= size + READ_COST_BYTES;
    if (!Number.isSafeInteger(offset) || offset < 0 || budget.bytes < 0) return undefined;
    const bytes = new Uint8Array(size);
    return readSync(file, bytes, 0, size, offset) === size ? new DataView(bytes.buffer) : undefined;
  };
}
