/** Starts the programs of Debian that make a release, and says in words what went wrong. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';

/** A reason for which there is no release, in words for the person who asked for one. */
export class ReleaseError extends Error {}

/** A program ended with another status than 0. */
export class ProgramFailed extends ReleaseError {}

/** The Debian packages of the programs, for a message that names what is missing. */
const PACKAGES: Readonly<Record<string, string>> = {
  'dpkg-scanpackages': 'dpkg-dev',
  git: 'git',
  gpg: 'gpg gpg-agent',
  gpgconf: 'gpgconf',
  make: 'make',
};

const COMPLAINT_LINES_MAX = 10;

export interface CallOptions {
  /** Folder in which the program runs. */
  folder?: string;
  environment?: NodeJS.ProcessEnv;
  input?: string | Uint8Array;
  /** Whether the program writes to this process's output, instead of into the answer. */
  isShown?: boolean;
  /** Ends the program. */
  signal?: AbortSignal;
}

/** Resolves with what the program printed, once its outputs are closed: what it started has ended too by then. */
export async function call(file: string, args: readonly string[], options: CallOptions = {}): Promise<Buffer> {
  const { folder, environment = process.env, input, isShown = false, signal } = options;
  signal?.throwIfAborted();
  const output = isShown ? 'inherit' : 'pipe';
  const child = spawn(file, args, {
    cwd: folder,
    env: environment,
    stdio: [input === undefined ? 'ignore' : 'pipe', output, output],
  });
  const end = () => child.kill('SIGTERM');
  signal?.addEventListener('abort', end);
  try {
    const [printed, complaints] = [collect(child.stdout), collect(child.stderr)];
    // A program that ends early does not read its input; its status says why.
    child.stdin?.on('error', () => {}).end(input);
    const status = await waitForEnd(child, file);
    signal?.throwIfAborted();
    if (status === 0) return Buffer.concat(printed);
    const reason = Buffer.concat(complaints).toString().trim().split('\n').slice(-COMPLAINT_LINES_MAX).join('\n');
    throw new ProgramFailed(`${[file, ...args].join(' ')} ended with ${status}${reason && `:\n${reason}`}`);
  } finally {
    signal?.removeEventListener('abort', end);
  }
}

function collect(stream: NodeJS.ReadableStream | null): Buffer[] {
  const parts: Buffer[] = [];
  stream?.on('data', (part: Buffer) => parts.push(part));
  return parts;
}

async function waitForEnd(child: ChildProcess, file: string): Promise<number | string> {
  try {
    const [code, signal] = await once(child, 'close');
    return code ?? signal;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    throw new ReleaseError(`${file} is not installed; as root: apt-get install ${PACKAGES[file] ?? file}`);
  }
}

/** Finds a missing program before the minutes that a build takes. */
export async function requirePrograms(...files: readonly string[]): Promise<void> {
  for (const file of files) await call(file, ['--version']);
}
