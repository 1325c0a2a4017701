/** Formats the output of a bench. */
import type { WriteStream } from 'node:tty';

/** Columns of text: the first is left-aligned, the others right-aligned. */
export function tableText(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  const line = (row: readonly string[]) =>
    row.map((cell, column) => (column === 0 ? cell.padEnd(widths[0]!) : cell.padStart(widths[column]!))).join('   ');
  return rows.map((row) => `  ${line(row).trimEnd()}\n`).join('');
}

/** One line that is overwritten, on a terminal only. */
export function progressLine(stream: WriteStream): (text: string) => void {
  return (text) => {
    if (stream.isTTY) stream.write(`\r\x1b[2K${text}`);
  };
}

export function nanoseconds(value: number): string {
  return value.toFixed(0);
}

/** Formats nanoseconds. */
export function microseconds(value: number): string {
  return (value / 1e3).toFixed(0);
}

/** Formats bytes. */
export function megabytes(value: number): string {
  return (value / 1e6).toFixed(0);
}

export function twoDigits(value: number): string {
  return value.toFixed(2);
}

export function percent(share: number): string {
  const value = share * 100;
  // Small shares keep one significant digit, so that a loss of one in a million does not show as 0.
  return `${value !== 0 && Math.abs(value) < 0.1 ? value.toPrecision(1) : value.toFixed(value < 10 ? 1 : 0)} %`;
}
