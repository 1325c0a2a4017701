/** Programs that publish OpenTelemetry contexts (otel_writes.c), and processes that run several of them in turn. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { basename } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { SysWriteEvent } from '../../bpf/schema/api.ts';
import { compileProgram } from './programs.ts';
import type { Recorded } from './recorded_run.ts';

/** The agent has checked a process for the first time: one second after it saw it, once its loop gets to it. */
export const CHECKED_MS = 4500;
/** Number of writes of a program. */
export const WRITES = 8 * 50 * 4;

/** They have the thread-local variable at the same place. */
export const publisher = () => compileProgram('otel_writes', ['-rdynamic']);
export const publisherThatExecutes = () =>
  compileProgram('otel_writes', ['-rdynamic', '-DBECOMES_NEXT'], 'otel_becomes');
export const noPublisher = () =>
  compileProgram('otel_writes', ['-rdynamic', '-DPUBLISHES_NO_PROCESS'], 'otel_no_process');
export const noPublisherThatExecutes = () =>
  compileProgram('otel_writes', ['-rdynamic', '-DPUBLISHES_NO_PROCESS', '-DBECOMES_NEXT'], 'otel_no_process_becomes');

/** Runs a program, and lets it go on after a time, as often as it waits for a line. */
export async function goOn(command: readonly string[], ...afterMs: readonly number[]): Promise<void> {
  const [program, ...args] = command;
  const child = spawn(program!, args, { stdio: ['pipe', 'ignore', 'inherit'] });
  const exited = once(child, 'exit');
  await once(child, 'spawn');
  for (const ms of afterMs) {
    await sleep(ms);
    child.stdin.write('go\n');
  }
  expect(await exited).toEqual([0, null]);
}

/** Writes to files of this folder. */
export const writesIn = (recorded: Recorded, folder: string): SysWriteEvent[] =>
  recorded.writes().filter(({ file }) => file?.startsWith(`${folder}/`));

/** Expects that the threads of a process that became a publisher own their writes, by the files' names. */
export function expectOwned(recorded: Recorded, folder: string): void {
  const own = writesIn(recorded, folder).filter(({ file }) => !['shell', 'started'].includes(basename(file!)));
  expect(own.length).toBe(WRITES);
  const owners = own.map(({ file, service_name, trace_id }) => [
    service_name,
    trace_id === null ? 'none' : trace_id === basename(file!),
  ]);
  expect(new Set(owners.map(String))).toEqual(new Set(['otel-shop,none', 'otel-shop,true']));
  expect(own.filter(({ trace_id }) => trace_id !== null).length).toBe(WRITES / 2);
}
