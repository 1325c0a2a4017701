/** Runs `kreplay ...` from the sources in a process that the tests of a suite share: one command costs milliseconds. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { type Answered, type Asked, END_OF_OUTPUT } from './command_host.ts';
import type { Ended } from './command_line.ts';

interface Host {
  child: ChildProcess;
  /** Rejects when it ends. */
  exited: Promise<never>;
  /** Resolve with what a command has written. */
  nextOutputs: (() => Promise<string>)[];
}

const ENDING_MS_MAX = 10_000;

let host: Host | undefined;
let last: Promise<unknown> = Promise.resolve();
afterAll(async () => {
  if (!host) return;
  const { child, exited } = host;
  child.disconnect();
  // A command that hangs would keep it.
  const late = setTimeout(() => child.kill('SIGKILL'), ENDING_MS_MAX);
  await exited.catch(() => clearTimeout(late));
});

/** Commands run one after another, in the order in which they are asked for. */
export function hosted(...args: string[]): Promise<Ended> {
  return asked({ args });
}

/** Runs it with these variables added to its environment. */
export function hostedWith(environment: Record<string, string>, ...args: string[]): Promise<Ended> {
  return asked({ args, environment });
}

/** Runs the command with a terminal as its output. */
export function hostedAtTerminal(...args: string[]): Promise<Ended> {
  return asked({ args, isTerminal: true });
}

/** With what it costs. */
export function hostedMeasured(...args: string[]): Promise<Ended & Answered> {
  return measured({ args });
}

async function asked(command: Partial<Asked> & Pick<Asked, 'args'>): Promise<Ended> {
  const { code, stdout, stderr } = await measured(command);
  return { code, stdout, stderr };
}

function measured({ environment = {}, isTerminal = false, ...command }: Partial<Asked> & Pick<Asked, 'args'>) {
  const ended = last.then(() => {
    host ??= newHost();
    return runIn(host, { ...command, environment, isTerminal });
  });
  last = ended.catch(() => {});
  return ended;
}

function newHost(): Host {
  const child = fork(join(import.meta.dirname, 'command_host.ts'), { stdio: ['ignore', 'pipe', 'pipe', 'ipc'] });
  const exited = once(child, 'exit').then(([code, signal]): never => {
    host = undefined;
    throw new Error(`the process of the commands has ended: ${code ?? signal}`);
  });
  return { child, exited, nextOutputs: [outputsOf(child.stdout!), outputsOf(child.stderr!)] };
}

function outputsOf(stream: Readable): () => Promise<string> {
  let text = '';
  stream.setEncoding('utf8').on('data', (part) => {
    text += part;
  });
  return async () => {
    while (!text.includes(END_OF_OUTPUT)) await once(stream, 'data');
    const [output = '', ...rest] = text.split(END_OF_OUTPUT);
    text = rest.join(END_OF_OUTPUT);
    return output;
  };
}

async function runIn({ child, exited, nextOutputs }: Host, asked: Asked): Promise<Ended & Answered> {
  const answered = once(child, 'message') as Promise<[Answered]>;
  child.send(asked);
  const done = Promise.all([answered, ...nextOutputs.map((next) => next())] as const);
  const [[costs], stdout, stderr] = await Promise.race([done, exited]);
  return { ...costs, stdout: stdout!, stderr: stderr! };
}
