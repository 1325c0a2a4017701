/** Counts, shares and sizes as text. */
import { groupDigits } from './exact_times.ts';

const SIZES = ['KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];

/**
 * Formats a share as `81 %`, `5.4 %`, `0.56 %` or `99.96 %`. Only a share of exactly 0 is shown as 0 %, and only a
 * share of exactly 1 as 100 %.
 */
export function percentText(share: number): string {
  if (share === 0 || share === 1 || !Number.isFinite(share)) return `${share * 100} %`;
  const percent = share * 100;
  if (percent > 0 && percent < 0.01) return '< 0.01 %';
  if (percent > 99.99 && percent < 100) return '> 99.99 %';
  if (percent >= 99 && percent < 100) return `${Math.min(percent, 99.99).toFixed(2)} %`;
  const places = Math.abs(percent) >= 10 ? 0 : Math.abs(percent) >= 1 ? 1 : 2;
  return `${percent.toFixed(places)} %`;
}

/** Formats bytes as `512 B`, `1 MiB` or `1.5 KiB`; whole multiples have no fraction. */
export function formatBytes(bytes: bigint | number): string {
  let value = Number(bytes);
  if (value < 1024) return `${groupDigits(bytes)} B`;
  let at = -1;
  // A value that rounds to 1024 belongs to the next unit.
  while (value >= 1023.95 && at < SIZES.length - 1) {
    value /= 1024;
    at++;
  }
  return `${Number.isInteger(value) ? groupDigits(value) : value.toFixed(1)} ${SIZES[at]}`;
}

/** Formats bytes with all digits: `1 048 576 B`. */
export function formatExactBytes(bytes: bigint): string {
  return `${groupDigits(bytes)} B`;
}

/** Formats a count as `1 request` or `8 requests`. */
export function formatQuantity(count: number, thing: string): string {
  return `${groupDigits(count)} ${thing}${count === 1 ? '' : 's'}`;
}

/** Formats a rate as `0.033`, `12.5` or `1 024`: three significant digits if below 100, otherwise an integer. */
export function formatRate(rate: number): string {
  return rate < 100 ? String(Number(rate.toPrecision(3))) : groupDigits(Math.round(rate));
}
