/**
 * Which file a call is for, whatever happened to its descriptor before. Each file of the plan has an error of its own,
 * which its writes get: what a build is told shows for what file it was taken.
 */
import { writeFileSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import { AS_NOBODY } from '../../unprivileged.ts';
import { planOf } from './plans.ts';
import { newFolder, removeFolder, run } from './run.ts';

const { EIO, ENOSPC, EDQUOT } = constants.errno;
const FILES = { a: EIO, b: ENOSPC, c: EDQUOT };
const WRITES = 64;

let folder = '';
beforeEach(() => {
  folder = newFolder();
});
afterEach(() => removeFolder(folder));

const PRELUDE = `
import ctypes, errno, os, sys, threading
def opened(name): return os.open(name, os.O_CREAT | os.O_WRONLY, 0o666)
def told(fd):
    try: return os.write(fd, b'x') and 'written'
    except OSError as error: return errno.errorcode[error.errno]
def say(name, fd, times=3):
    os.write(1, ''.join(f'{name}:{told(fd)}\\n' for _ in range(times)).encode())
os.chdir(sys.argv[1])
`;

/** What the script says; a line that follows one like it is left out. */
async function saidBy(script: string, before: readonly string[] = []): Promise<string[]> {
  const file = join(folder, 'build.py');
  writeFileSync(file, PRELUDE + script);
  const plan = planOf(
    Object.entries(FILES).map(([name, error]) => ({
      path: join(folder, name),
      comm: 'python3',
      calls: Array.from({ length: WRITES }, () => ({ size: 1, error })),
    })),
  );
  const { code, stdout, stderr } = await run(folder, { plan, before, command: ['python3', file, folder] });
  expect([code, stderr]).toEqual([0, '']);
  const lines = stdout.trim().split('\n');
  return lines.filter((line, i) => line !== lines[i - 1]);
}

test.each([
  ['as it is', []],
  ['as a user who may do nothing', AS_NOBODY],
  ['with few descriptors for the runner', ['prlimit', '--nofile=24:24']],
  ['with none to spare', ['prlimit', '--nofile=16:16']],
])('a descriptor that stands for one file after the other, %s', async (_, before) => {
  const said = await saidBy(
    `
for name in 'abcabc':
    fd = opened(name)
    os.dup2(fd, 9)
    os.close(fd)
    say(name, 9)
os.close(9)
say('closed', 9)
r, w = os.pipe()
os.dup2(w, 9)
say('pipe', 9)
os.dup2(opened('b'), 9)
say('b', 9)`,
    before,
  );
  const each = ['a:EIO', 'b:ENOSPC', 'c:EDQUOT'];
  expect(said).toEqual([...each, ...each, 'closed:EBADF', 'pipe:written', 'b:ENOSPC']);
});

test('a file that is renamed while it is open has its new name', async () => {
  expect(
    await saidBy(`
fd = opened('other')
say('other', fd)
for name in 'ab':
    os.rename('other' if name == 'a' else 'a', name)
    say(name, fd)`),
  ).toEqual(['other:written', 'a:EIO', 'b:ENOSPC']);
});

test('one number in several processes and threads stands for what each of them has', async () => {
  expect(
    await saidBy(`
for name in 'abc':
    child = os.fork()
    if child == 0:
        os.dup2(opened(name), 9)
        say(name, 9)
        os._exit(0)
    os.waitpid(child, 0)
def work(name):
    libc.unshare(0x400) # CLONE_FILES
    os.dup2(opened(name), 9)
    for _ in range(2):
        met.wait()
        turn[name].acquire()
        say(name, 9)
        turn['b' if name == 'a' else 'a'].release()
libc = ctypes.CDLL(None)
met = threading.Barrier(2)
turn = {'a': threading.Semaphore(1), 'b': threading.Semaphore(0)}
threads = [threading.Thread(target=work, args=(name,)) for name in 'ab']
for thread in threads: thread.start()
for thread in threads: thread.join()`),
  ).toEqual(['a:EIO', 'b:ENOSPC', 'c:EDQUOT', 'a:EIO', 'b:ENOSPC', 'a:EIO', 'b:ENOSPC']);
});

test('more descriptors than links are kept', async () => {
  const said = await saidBy(`
fds = [(name, opened(name)) for name in 'abc' * 5] + [(str(n), opened(f'other-{n}')) for n in range(600)]
for _ in range(3):
    for name, fd in fds:
        say(name, fd, 1)`);
  expect(new Set(said.map((line) => line.replace(/^\d+:/, 'other:')))).toEqual(
    new Set(['a:EIO', 'b:ENOSPC', 'c:EDQUOT', 'other:written']),
  );
  expect(said).toHaveLength(3 * 615);
});
