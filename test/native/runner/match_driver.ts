/** Runs match_driver.c: the decisions of the runner, without a build and without system calls. */
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type PlannedThread, planOf } from './plans.ts';
import { compileC, newFolder, removeFolder } from './run.ts';

const PARTS = [
  ...['plan/plan.c', 'plan/streams.c', 'plan/size_pools.c', 'identify/keys.c', 'identify/table.c'],
  ...['match/alignment.c', 'match/classes.c', 'match/match.c', 'match/stalls.c', 'match/syncs.c'],
  ...['delay/heap.c', 'delay/lateness.c', 'report/failure.c'],
];
const SANITIZED = ['-g', '-fsanitize=address,undefined', '-fno-sanitize-recover=all'];

export function compileMatchDriver(): string {
  return compileC('match_driver', PARTS, SANITIZED);
}

export const MODES = { auto: 0, align: 1, ordinal: 2, dist: 3 } as const;

let driver = '';
let folder = '';

/** Call it in beforeAll(). */
export function startMatching(): void {
  driver = compileMatchDriver();
  folder = newFolder();
}

/** Call it in afterAll(). */
export function endMatching(): void {
  removeFolder(folder);
}

export const driverPath = () => driver;

/** A path in a folder that is removed at the end. */
export const inFolder = (name: string) => join(folder, name);

export interface Call {
  file?: string;
  isSync?: boolean;
  tid?: number;
  comm?: string;
  size?: number | undefined;
}

export const lineOf = ({ file = '/data/log', isSync = false, tid = 1, comm = 'db', size }: Call) =>
  `${file} ${isSync ? 1 : 0} ${tid} ${comm} ${size ?? '-'}`;

export function drive(words: readonly string[], input: readonly string[]): string[] {
  const output = execFileSync(driver, words, { input: input.map((line) => `${line}\n`).join(''), encoding: 'utf8' });
  return output.split('\n').slice(0, -1);
}

export interface Matched {
  how: number;
  event: number;
  target: number;
}

export function match(
  threads: readonly PlannedThread[],
  calls: readonly (Call | string)[],
  mode: keyof typeof MODES = 'align',
  seed = 1,
  unknown: 'none' | 'class' = 'none',
): Matched[] {
  const plan = inFolder('plan');
  writeFileSync(plan, planOf(threads));
  const lines = calls.map((call) => (typeof call === 'string' ? call : lineOf(call)));
  const words = ['match', plan, `${MODES[mode]}`, `${seed}`, ...(unknown === 'class' ? [unknown] : [])];
  return drive(words, lines).map((line) => {
    const [how, event, target] = line.split(' ').map(Number);
    return { how: how!, event: event!, target: target! };
  });
}
