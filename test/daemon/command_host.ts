/**
 * Runs one `kreplay ...` after another in one process, for tests in which a command is not about its process: modules
 * are loaded once. Standard output and standard error are those of this process.
 */
import { type LoadHookSync, registerHooks } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

export interface Asked {
  args: string[];
  environment: Record<string, string>;
  /** Whether the command takes its standard output for a terminal. */
  isTerminal: boolean;
}

export interface Answered {
  code: number;
  cpuMs: number;
  /** The most memory that the process has had so far. */
  memoryKib: number;
}

/** Follows all that a command has written, in both outputs. */
export const END_OF_OUTPUT = '\0end of output\0';

const ENTRY = pathToFileURL(join(import.meta.dirname, '../../kreplay.ts')).href;

/** The error that stands for an end of the process by a command. */
class Exit extends Error {
  code: number;

  constructor(code: number) {
    super(`exit ${code}`);
    this.code = code;
  }
}

/** Makes the module run its command, as if it were the program. */
const asProgram: LoadHookSync = (url, context, next) => {
  const loaded = next(url, context);
  if (!url.startsWith(ENTRY)) return loaded;
  return { ...loaded, source: String(loaded.source).replace('import.meta.main', 'true') };
};

let count = 0;

async function codeOf({ args, environment, isTerminal }: Asked): Promise<number> {
  process.argv.splice(2, process.argv.length, ...args);
  process.exitCode = undefined;
  process.stdout.isTTY = isTerminal;
  const restored = [restoring(process), restoring(process.stdout), restoring(process.stderr), setting(environment)];
  try {
    await import(`${ENTRY}?${count++}`);
    return Number(process.exitCode ?? 0);
  } catch (error) {
    if (error instanceof Exit) return error.code;
    process.stderr.write(`${(error as Error).stack}\n`);
    return 1;
  } finally {
    for (const restore of restored) restore();
    // A daemon does not wait for who has started it.
    process.channel!.ref();
  }
}

/** Returns what removes the listeners that are added from now on; those that clean up at the end of a process are called. */
function restoring(emitter: NodeJS.EventEmitter): () => void {
  const known = new Map(emitter.eventNames().map((name) => [name, emitter.listeners(name)]));
  return () => {
    for (const name of emitter.eventNames())
      for (const listener of emitter.listeners(name)) {
        if (known.get(name)?.includes(listener)) continue;
        emitter.off(name, listener as () => void);
        if (name === 'exit') listener(process.exitCode ?? 0);
      }
  };
}

/** Sets these variables, and returns what undoes it. */
function setting(environment: Record<string, string>): () => void {
  const before = Object.keys(environment).map((name) => [name, process.env[name]] as const);
  Object.assign(process.env, environment);
  return () => {
    for (const [name, value] of before)
      if (value === undefined) delete process.env[name];
      else process.env[name] = value;
  };
}

/** Serves the process that has started this one, until it has no more to ask. */
function serve(): void {
  registerHooks({ load: asProgram });
  const exit = process.exit.bind(process);
  process.exit = (code) => {
    throw new Exit(Number(code ?? process.exitCode ?? 0));
  };
  process.on('message', async (asked: Asked) => {
    const before = process.cpuUsage();
    const code = await codeOf(asked);
    const { user, system } = process.cpuUsage(before);
    const usage = { cpuMs: (user + system) / 1000, memoryKib: process.resourceUsage().maxRSS };
    for (const stream of [process.stdout, process.stderr]) stream.write(END_OF_OUTPUT);
    process.send!({ code, ...usage } satisfies Answered);
  });
  process.on('disconnect', () => exit(0));
}

if (import.meta.main) serve();
