/** Formats amounts for people. */

const BYTE_UNITS = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];

/** Formats a size with three digits, in the units that disks are sold by: `16.8 MB`. */
export function formatBytes(bytes: number): string {
  const power = bytes < 1000 ? 0 : Math.min(Math.floor(Math.log10(bytes) / 3), BYTE_UNITS.length - 1);
  return `${formatThreeDigits(bytes / 1000 ** power)} ${BYTE_UNITS[power]}`;
}

/** Formats a count with its noun, such as `1 group` or `2 groups`. The noun's plural must end in s. */
export function formatCount(count: number | bigint, noun: string): string {
  return `${count} ${noun}${BigInt(count) === 1n ? '' : 's'}`;
}

export function formatThreeDigits(value: number): string {
  return value >= 100 ? String(Math.round(value)) : String(Number(value.toPrecision(3)));
}
