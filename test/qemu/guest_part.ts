/** Starts a long-running command and collects its output. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';

export interface Part {
  process: ChildProcess;
  output(): string;
  ended: Promise<[status: number | null]>;
}

/** Resolves when the output contains `words`. */
export async function startPart(command: readonly string[], words: string): Promise<Part> {
  const [file, ...args] = command;
  const child = spawn(file!, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  const ended = once(child, 'close') as Promise<[number | null]>;
  await new Promise<void>((resolve, reject) => {
    for (const stream of [child.stdout, child.stderr]) {
      stream.setEncoding('utf8').on('data', (text: string) => {
        output += text;
        if (output.includes(words)) resolve();
      });
    }
    void ended.then(() => reject(new Error(`it ended without saying "${words}": ${output}`)));
  });
  return { process: child, output: () => output, ended };
}
