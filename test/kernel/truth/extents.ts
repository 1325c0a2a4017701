/** The location of a file's blocks on its disk, as the file system itself reports (FIEMAP, by filefrag). */
import { run } from '../programs.ts';

export const BLOCK_BYTES = 4096;

/** Maps each block of the device that the file has to its block of the file. */
export function blocksOf(file: string): Map<number, number> {
  const blocks = new Map<number, number>();
  for (const line of run('filefrag', ['-b4096', '-v', file]).split('\n')) {
    // ` 0:        0..      15:      34816..     34831:     16: ...`
    const found = /^\s*\d+:\s*(\d+)\.\.\s*(\d+):\s*(\d+)\.\./.exec(line);
    if (!found) continue;
    const [first, last, physical] = found.slice(1).map(Number) as [number, number, number];
    for (let at = 0; at <= last - first; at++) blocks.set(physical + at, first + at);
  }
  return blocks;
}
