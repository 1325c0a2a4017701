/** Runs the external programs that make a release, and reports their failures in readable words. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';

/** The error that ends a release. Its message tells the user the reason. */
export class ReleaseError extends Error {}

/** The error for a program that exited with a status other than 0. */
export class ProgramFailed extends ReleaseError {}

/** The Debian package of each program, for the message about a missing program. */
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
  /** Whether the program inherits this process's outputs; otherwise its output is returned. */
  isShown?: boolean;
  /** Aborting this signal ends the program. */
  signal?: AbortSignal;
}

/**
 * Runs a program. Resolves with its standard output once its outputs are closed, so that its child processes have also
 * ended.
 */
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
    // A program that ends early may not read its input. This error is ignored, because the exit status gives the
    // reason.
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

/** Throws an error if a program is missing. This check comes before the build, which takes minutes. */
export async function requirePrograms(...files: readonly string[]): Promise<void> {
  for (const file of files) await call(file, ['--version']);
}
