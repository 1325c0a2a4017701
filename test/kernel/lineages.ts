/** Families of tasks that write and label themselves: runs lineage.c, and reads what was recorded of each family. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import type { SysWriteEvent } from '../../bpf/schema/api.ts';
import { compileProgram } from './programs.ts';
import { type Recorded, type Recorder, temporaryFolder } from './recorded_run.ts';

/** Steps for lineage.c. */
export type Words = readonly string[];

/** Another task executes the steps in braces. */
const by =
  (how: string) =>
  (...body: readonly Words[]): Words => [how, '{', ...body.flat(), '}'];

export const fork = by('fork');
export const vfork = by('vfork');
export const spawned = by('spawn');
export const thread = by('thread');
export const exec = by('exec');
/** `@` stands for the family's own name: no two families have a transaction in common. */
export const mark = (text: string): Words => ['mark', text];
export const say = (bytes: number): Words => ['say', String(bytes)];
export const post = (number = 0): Words => ['post', String(number)];
export const wait = (number = 0): Words => ['wait', String(number)];
export const numbered = (number: number): Words => ['number', String(number)];
export const set = (variable: string): Words => ['set', variable];
export const live = (milliseconds: number): Words => ['live', String(milliseconds)];
export const setsid: Words = ['setsid'];
export const joined: Words = ['join'];
export const leave: Words = ['leave'];
export const die: Words = ['die'];
export const orphaned: Words = ['orphaned'];
export const alone: Words = ['alone'];

export interface Family {
  /** Steps for lineage.c; or a script for bash, which finds the file in `$out`. */
  does: Words | string;
  environment?: Readonly<Record<string, string>>;
}

export interface Families {
  recorded: Recorded;
  /** The only write of this size. */
  writeOf(name: string, bytes: number): SysWriteEvent;
  /** Its owner: transaction, whether it has a trace, source, quality. */
  ownerOf(name: string, bytes: number): string;
  remove(): void;
}

/** The form of a name for files and for markers, which take no blanks. */
const idOf = (name: string) => name.replace(/\W+/g, '_');

const AT_ONCE = 4;
const RUN_MS_MAX = 30_000;

export async function recordFamilies(families: Readonly<Record<string, Family>>, agent: Recorder): Promise<Families> {
  const started = startFamilies();
  return started.families(await agent.record(() => started.run(families)));
}

export interface StartedFamilies {
  /** Resolves when all families have ended. */
  run(families: Readonly<Record<string, Family>>, atOnce?: number): Promise<void>;
  /** The file that a family writes to. */
  fileOf(name: string): string;
  families(recorded: Recorded): Families;
}

/** For a test that starts its own agent. */
export function startFamilies(): StartedFamilies {
  const program = compileProgram('lineage');
  const folder = temporaryFolder();
  const fileOf = (name: string) => join(folder, idOf(name));

  async function runOne(name: string, { does, environment }: Family): Promise<void> {
    const words = (typeof does === 'string' ? ['-c', does] : [fileOf(name), ...does]).map((word) =>
      word.replaceAll('@', `@${idOf(name)}`),
    );
    const child = spawn(typeof does === 'string' ? 'bash' : program, words, {
      env: { PATH: process.env.PATH, out: fileOf(name), ...environment },
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: RUN_MS_MAX,
    });
    let said = '';
    for (const stream of [child.stdout, child.stderr]) stream.setEncoding('utf8').on('data', (text) => (said += text));
    // Not 'exit': processes that outlive the first one have these pipes open as well.
    const [code] = await once(child, 'close');
    if (code !== 0 || said !== '') throw new Error(`${name} ended with ${code}: ${said}`);
  }

  return {
    async run(families, atOnce = AT_ONCE) {
      const left = Object.entries(families);
      const runSome = async () => {
        for (let next = left.shift(); next; next = left.shift()) await runOne(...next);
      };
      await Promise.all(Array.from({ length: atOnce }, runSome));
    },
    fileOf,
    families(recorded) {
      const writes = Map.groupBy(recorded.writes(), ({ file }) => file);
      const writeOf = (name: string, bytes: number) => {
        const [write, ...more] = (writes.get(fileOf(name)) ?? []).filter(({ result }) => result === BigInt(bytes));
        if (!write || more.length > 0) {
          const lost = recorded.losses().map(({ cause, lost: count }) => `${count} ${cause}`);
          const times = more.length + (write ? 1 : 0);
          const others = recorded.writes().filter((one) => one.comm === 'lineage' && one.file === null).length;
          const said = `${name} wrote ${bytes} bytes ${times} times; ${others} calls to unknown files`;
          throw new Error(`${said}; lost: ${lost.join(', ') || 'nothing'}`);
        }
        return write;
      };
      return {
        recorded,
        writeOf,
        ownerOf(name, bytes) {
          const { transaction_id, trace_id, attribution } = writeOf(name, bytes);
          const transaction = transaction_id?.replace(`@${idOf(name)}`, '');
          const { source, quality } = attribution;
          return [transaction, trace_id && 'trace', source, quality].filter((word) => word).join(' ');
        },
        remove: () => rmSync(folder, { recursive: true, force: true }),
      };
    },
  };
}
