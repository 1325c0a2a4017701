/** Names of errors, which are negative results. */

import { constants } from 'node:os';
import { getSystemErrorMap } from 'node:util';
import { I64_MIN } from '../../base/bigints.ts';

/**
 * Linux errors that Node does not name or names differently. The last four exist only inside the kernel, while a signal
 * interrupts a call (include/linux/errno.h): the program gets EINTR, or the call is restarted transparently.
 */
const LINUX: Record<number, string> = {
  52: 'EBADE',
  95: 'EOPNOTSUPP',
  117: 'EUCLEAN',
  121: 'EREMOTEIO',
  123: 'ENOMEDIUM',
  126: 'ENOKEY',
  133: 'EHWPOISON',
  512: 'EINTR',
  513: 'EINTR',
  514: 'EINTR',
  516: 'EINTR',
};

/** Upper bound of Linux's error numbers; libuv's own errors have higher numbers. */
const LINUX_ERRNO_MAX = 1000;

const NAMES = new Map<bigint, string>([
  ...Object.entries(constants.errno).map(([name, errno]) => [BigInt(errno), name] as const),
  // Later entries win: EAGAIN over EWOULDBLOCK, which has the same number.
  ...[...getSystemErrorMap()]
    .filter(([negative]) => -negative < LINUX_ERRNO_MAX)
    .map(([negative, [name]]) => [BigInt(-negative), name] as const),
  ...Object.entries(LINUX).map(([errno, name]) => [BigInt(errno), name] as const),
]);

export function nameError(result: bigint): string | null {
  if (result >= 0n) return null;
  return NAMES.get(-result) ?? `errno ${-result}`;
}

const RESULT_MIN = I64_MIN;

/** All error names; an error without a name is written as `errno` and its number. */
export const ERROR_NAMES: readonly string[] = [...new Set(NAMES.values())].sort();

/** Returns the results that an error name stands for; undefined for any other text. */
export function parseErrorName(name: string): bigint[] | undefined {
  const results = [...NAMES].filter(([, known]) => known === name).map(([errno]) => -errno);
  if (results.length > 0) return results;
  const [, errno] = /^errno ([1-9]\d{0,18})$/.exec(name) ?? [];
  const result = errno === undefined ? 0n : -BigInt(errno);
  return result < 0n && result >= RESULT_MIN ? [result] : undefined;
}
