/** How a bench prints. */
import type { WriteStream } from 'node:tty';

/** Columns of text: the first to the left, numbers to the right. */
export function tableText(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]!.map((_, column) => Math.max(...rows.map((row) => row[column]!.length)));
  const line = (row: readonly string[]) =>
    row.map((cell, column) => (column === 0 ? cell.padEnd(widths[0]!) : cell.padStart(widths[column]!))).join('   ');
  return rows.map((row) => `  ${line(row).trimEnd()}\n`).join('');
}

/** One line that is written over, on a terminal only. */
export function progressLine(stream: WriteStream): (text: string) => void {
  return (text) => {
    if (stream.isTTY) stream.write(`\r\x1b[2K${text}`);
  };
}

export function nanoseconds(value: number): string {
  return value.toFixed(0);
}

/** Of nanoseconds. */
export function microseconds(value: number): string {
  return (value / 1e3).toFixed(0);
}

/** Of bytes. */
export function megabytes(value: number): string {
  return (value / 1e6).toFixed(0);
}

export function twoDigits(value: number): string {
  return value.toFixed(2);
}

export function percent(share: number): string {
  const value = share * 100;
  // A loss of one in a million is still one.
  return `${value !== 0 && Math.abs(value) < 0.1 ? value.toPrecision(1) : value.toFixed(value < 10 ? 1 : 0)} %`;
}
