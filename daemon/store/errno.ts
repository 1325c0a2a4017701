/** Names of negative results. */
import { constants } from 'node:os';
import { getSystemErrorMap } from 'node:util';

/** Linux ones that Node does not name or names otherwise; the last four only ever exist inside the kernel. */
const LINUX: Record<number, string> = {
  52: 'EBADE',
  95: 'EOPNOTSUPP',
  117: 'EUCLEAN',
  121: 'EREMOTEIO',
  123: 'ENOMEDIUM',
  126: 'ENOKEY',
  133: 'EHWPOISON',
  512: 'ERESTARTSYS',
  513: 'ERESTARTNOINTR',
  514: 'ERESTARTNOHAND',
  516: 'ERESTART_RESTARTBLOCK',
};

/** Beyond are libuv's own numbers. */
const LINUX_ERRNO_MAX = 1000;

const NAMES = new Map<bigint, string>([
  ...Object.entries(constants.errno).map(([name, errno]) => [BigInt(errno), name] as const),
  // Later ones win: EAGAIN over EWOULDBLOCK, which is the same number.
  ...[...getSystemErrorMap()]
    .filter(([negative]) => -negative < LINUX_ERRNO_MAX)
    .map(([negative, [name]]) => [BigInt(-negative), name] as const),
  ...Object.entries(LINUX).map(([errno, name]) => [BigInt(errno), name] as const),
]);

export function errorName(result: bigint): string | null {
  if (result >= 0n) return null;
  return NAMES.get(-result) ?? `errno ${-result}`;
}
