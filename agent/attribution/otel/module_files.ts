/**
 * Opens the files of mapped programs and libraries by their mappings, so it does not matter what became of their paths.
 */
import { type BigIntStats, closeSync, constants, fstatSync, openSync, statSync } from 'node:fs';
import { type Elf, fileReader, type ReadAt, readElf } from '../elf/elf.ts';
import { type Mapping, reasonOf } from './process_maps.ts';

/** Limit for remembered files that lack what was looked for. The libraries of a host number some hundred. */
const NEGATIVES_MAX = 1 << 14;

/** Cost of a read in addition to its bytes, in bytes: many small reads take time, too. */
const READ_COST_BYTES = 512;

/** Bytes that may still be read for one process. A negative number means that they were not enough. */
export interface Budget {
  bytes: number;
}

export type FileProblem = 'not_permitted' | 'unreadable';

export interface ModuleFiles {
  /**
   * Applies `examine` to the file behind a mapping. If the result is undefined, this is remembered for the file in its
   * present state, so callers must always pass the same question.
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
    // Evict the oldest.
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
        // Opening a device may have any side effect.
        if ((Number(stat.mode) & constants.S_IFMT) !== constants.S_IFREG || negatives.has(identity)) return undefined;
        file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
        if (identityOf(fstatSync(file, { bigint: true })) !== identity) return 'unreadable';
        const elf = readElf(within(budget, fileReader(file)));
        const result = elf && examine(elf);
        if (result === undefined && budget.bytes >= 0) remember(identity);
        return result;
      } catch (error) {
        // Otherwise, the file has been unmapped or the process is gone.
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

function within(budget: Budget, read: ReadAt): ReadAt {
  return (offset, size) => {
    budget.bytes -= size + READ_COST_BYTES;
    return budget.bytes < 0 ? undefined : read(offset, size);
  };
}
