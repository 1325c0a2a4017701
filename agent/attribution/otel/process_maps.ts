/** Reads the mappings of a process from /proc/PID/maps. */
import { closeSync, openSync, readSync } from 'node:fs';
import { found, missing, type Outcome, type ProcessReason } from './outcome.ts';

/**
 * Maximum size of the text of /proc/PID/maps, enough for about 40,000 lines. Larger texts are possible: a process may
 * have 65,530 mappings, each with a path of up to 4096 bytes.
 */
const MAPS_BYTES_MAX = 4 << 20;
const CHUNK_BYTES = 1 << 16;

export interface Mapping {
  readonly start: number;
  readonly end: number;
  readonly executable: boolean;
  /** Offset in the file at which the mapping starts. */
  readonly offset: number;
  /** Major and minor device number in hexadecimal digits, such as `fd:00`. */
  readonly device: string;
  readonly inode: string;
  /**
   * Path as Latin-1, because it may contain any bytes. For some mappings, the kernel gives a name instead, such as
   * `[heap]`.
   */
  readonly path: string;
}

/** Returns the text as Latin-1, so that no byte of a path is lost. */
export function readMaps(pid: number): Outcome<string, ProcessReason> {
  try {
    const file = openSync(`/proc/${pid}/maps`, 'r');
    try {
      return readAll(file);
    } finally {
      closeSync(file);
    }
  } catch (error) {
    return missing(toProcessReason(error));
  }
}

/** Reads up to the end of the file, which reports no size. Each read returns at most one page. */
function readAll(file: number): Outcome<string, ProcessReason> {
  const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
  const parts: string[] = [];
  for (let size = 0; size <= MAPS_BYTES_MAX; ) {
    const got = readSync(file, chunk);
    if (got === 0) return found(parts.join(''));
    parts.push(chunk.toString('latin1', 0, got));
    size += got;
  }
  return missing('too_large');
}

export function toProcessReason(error: unknown): ProcessReason {
  const { code } = error as NodeJS.ErrnoException;
  return code === 'EACCES' || code === 'EPERM' ? 'not_permitted' : 'gone';
}

const LINE = /^([0-9a-f]+)-([0-9a-f]+) ..(.). ([0-9a-f]+) ([0-9a-f]+:[0-9a-f]+) (\d+) *(.*)$/s;

/**
 * Returns the mappings in the order of their addresses. A path may contain any byte except the line feed, which the
 * kernel escapes.
 */
export function parseMaps(maps: string): Mapping[] {
  const mappings: Mapping[] = [];
  for (const line of maps.split('\n')) {
    const parts = LINE.exec(line);
    if (!parts) continue;
    const [, start, end, execute, offset, device, inode, path] = parts as unknown as string[];
    const mapping: Mapping = {
      start: Number.parseInt(start!, 16),
      end: Number.parseInt(end!, 16),
      executable: execute === 'x',
      offset: Number.parseInt(offset!, 16),
      device: device!,
      inode: inode!,
      path: path!,
    };
    // Addresses of the kernel's own pages at the very top are too large to be safe integers.
    if (Number.isSafeInteger(mapping.end)) mappings.push(mapping);
  }
  return mappings;
}
