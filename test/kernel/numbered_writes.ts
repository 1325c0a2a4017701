/** A load that lists its own writes: each can be found in a recording, and each missing one has a known time. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Loss } from '../../agent/recording/format/losses.ts';
import { openReader } from '../../agent/recording/read/reader.ts';
import { compileProgram } from './programs.ts';

/** Descriptor of the first file that the program opens. */
const FD = 3;

const started: ChildProcess[] = [];
afterAll(() => {
  for (const program of started) program.kill('SIGKILL');
});

export interface NumberedWrites {
  pid: number;
  /** Ends it and returns when each write began: that of number 1 is at index 0. */
  stop(): Promise<bigint[]>;
}

/** If `perMs` is 0, it makes as many as the machine can, but not more than `most`. */
export function startNumberedWrites(folder: string, perMs: number, most = 8_000_000): NumberedWrites {
  const list = join(folder, 'began');
  const output = openSync(list, 'w');
  const program = spawn(compileProgram('numbered_writes'), [String(perMs), String(most)], {
    stdio: ['ignore', output, 'inherit'],
  });
  started.push(program);
  closeSync(output);
  const ended = once(program, 'exit');
  return {
    pid: program.pid!,
    async stop() {
      program.kill('SIGTERM');
      const [code] = await ended;
      if (code !== 0) throw new Error(`numbered_writes ended with ${code}`);
      return readFileSync(list, 'utf8').trim().split('\n').map(BigInt);
    },
  };
}

export interface RecordedNumbers {
  /** The numbers in the order of their time. */
  numbers: number[];
  losses: Loss[];
}

/** Writes of the load that are in the recording and began at `fromNs` or later. */
export function recordedNumbers({ pid }: NumberedWrites, dataFolder: string, fromNs = 0n): RecordedNumbers {
  const reader = openReader(join(dataFolder, 'recording.kreplay'));
  try {
    const filter = { eventTypes: ['sys_write' as const], pid, fromNs };
    const numbers: number[] = [];
    for (const { rowCount, columns } of reader.scan({ filter, columns: ['sys_write.fd', 'result'] })) {
      const [fds, results] = [columns.get('sys_write.fd')!, columns.get('result')!];
      for (let row = 0; row < rowCount; row++) if (fds[row] === FD) numbers.push(Number(results[row]));
    }
    return { numbers, losses: reader.losses() };
  } finally {
    reader.close();
  }
}

/** Numbers of the writes that are not in the recording. */
export function missingNumbers(began: readonly bigint[], numbers: readonly number[]): number[] {
  const there = new Uint8Array(began.length + 1);
  for (const number of numbers) there[number] = 1;
  return began.flatMap((_, index) => (there[index + 1] ? [] : [index + 1]));
}

/** Whether a loss covers the time of a write: it had ended when the next one began. */
export function isTold(losses: readonly Loss[], began: readonly bigint[], number: number): boolean {
  const startNs = began[number - 1]!;
  const endNs = began[number] ?? startNs;
  return losses.some(({ fromNs, toNs }) => fromNs <= endNs && startNs <= toNs);
}
