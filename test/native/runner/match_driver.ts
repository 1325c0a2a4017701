/** match_driver.c: the parts of the runner that decide, without any build and without system calls. */
import { compileC } from './run.ts';

const PARTS = [
  ...['plan.c', 'failure.c', 'keys.c', 'table.c', 'streams.c', 'size_pools.c', 'classes.c', 'match.c', 'stalls.c'],
  ...['syncs.c', 'heap.c', 'lateness.c'],
];
const SANITIZED = ['-g', '-fsanitize=address,undefined', '-fno-sanitize-recover=all'];

export function compileMatchDriver(): string {
  return compileC('match_driver', PARTS, SANITIZED);
}
