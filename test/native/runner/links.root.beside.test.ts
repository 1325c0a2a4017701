/**
 * Tests which file a call is attributed to, whatever happened to its descriptor before. Each file of the plan has an
 * error of its own, which writes to it get: the error that a build sees identifies the file.
 */
import { writeFileSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import { AS_NOBODY } from '../../unprivileged.ts';
import { planOf } from './plans.ts';
import { newFolder, removeFolder, run } from './run.ts';

const { EIO, ENOSPC, EDQUOT } = constants.errno;
const FILES = { a: EIO, b: ENOSPC, c: EDQUOT, 'renamed/a': EIO };
const WRITES = 16_384;

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
libc = ctypes.CDLL(None)
os.chdir(sys.argv[1])
`;

/** Lines that the script prints, without consecutive duplicates. */
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

/** The helper holds the link of a descriptor open from the second call on, so both cases are tested. */
const TIMES = [
  ['one call', 1],
  ['three calls', 3],
] as const;

const ALLOWED = [
  ['by default', []],
  ['as an unprivileged user', AS_NOBODY],
  ['with few descriptors for the runner', ['prlimit', '--nofile=24:24']],
  ['with no descriptors to spare', ['prlimit', '--nofile=16:16']],
] as const;

test.each(TIMES.flatMap(([calls, times]) => ALLOWED.map(([how, before]) => [calls, how, times, before] as const)))(
  'a descriptor that stands for consecutive files, %s each, %s',
  async (_, __, times, before) => {
    const said = await saidBy(
      `
for name in 'abcabc':
    fd = opened(name)
    os.dup2(fd, 9)
    os.close(fd)
    say(name, 9, ${times})
os.close(9)
say('closed', 9, ${times})
r, w = os.pipe()
os.dup2(w, 9)
say('pipe', 9, ${times})
os.dup2(opened('b'), 9)
say('b', 9, ${times})
os.dup2(os.eventfd(0) if hasattr(os, 'eventfd') else libc.eventfd(0, 0), 9)
say('eventfd', 9, ${times})
os.dup2(opened('c'), 9)
say('c', 9, ${times})`,
      before,
    );
    const each = ['a:EIO', 'b:ENOSPC', 'c:EDQUOT'];
    const others = ['closed:EBADF', 'pipe:written', 'b:ENOSPC', 'eventfd:EINVAL', 'c:EDQUOT'];
    expect(said).toEqual([...each, ...each, ...others]);
  },
);

test.each(TIMES)('a file that is renamed while it is open has its new name: %s', async (_, times) => {
  expect(
    await saidBy(`
fd = opened('other')
say('other', fd, ${times})
was = 'other'
for name in 'abc':
    os.rename(was, name)
    say(name, fd, ${times})
    was = name`),
  ).toEqual(['other:written', 'a:EIO', 'b:ENOSPC', 'c:EDQUOT']);
});

test('a file that another process renames during continuous writes has its new name', async () => {
  expect(
    await saidBy(`
r, w = os.pipe()
def rename_when_told():
    was = 'other'
    for name in 'abc':
        os.read(r, 1)
        os.rename(was, name)
        was = name
    os._exit(0)
if os.fork() == 0: rename_when_told()
fd = opened('other')
say('other', fd)
for name in 'abc':
    os.write(w, b'x')
    while not os.path.exists(name): told(fd)
    say(name, fd)
os.wait()`),
  ).toEqual(['other:written', 'a:EIO', 'b:ENOSPC', 'c:EDQUOT']);
});

test.each(TIMES)('a folder that is renamed above an open file is seen at the next call: %s', async (_, times) => {
  expect(
    await saidBy(`
os.makedirs('top/folder')
fd = opened('top/folder/a')
say('top/folder/a', fd, ${times})
os.rename('top/folder', 'renamed')
say('renamed/a', fd, ${times})
os.rename('renamed', 'top/folder')
say('top/folder/a', fd, ${times})
os.rename('top', 'other')
os.rename('other/folder', 'renamed')
say('renamed/a', fd, ${times})`),
  ).toEqual(['top/folder/a:written', 'renamed/a:EIO', 'top/folder/a:written', 'renamed/a:EIO']);
});

test('another hard link of the same file is seen at the next call', async () => {
  expect(
    await saidBy(`
fd = opened('b')
say('b', fd)
os.link('b', 'c')
os.dup2(opened('c'), fd)
say('c', fd)`),
  ).toEqual(['b:ENOSPC', 'c:EDQUOT']);
});

test('a file system can be unmounted as soon as its file is closed', async () => {
  expect(
    await saidBy(
      `
import subprocess
os.mkdir('mounted')
subprocess.run(['mount', '-t', 'tmpfs', 'none', 'mounted'], check=True)
fd = opened('mounted/a')
say('mounted/a', fd)
os.close(fd)
subprocess.run(['umount', 'mounted'], check=True)
fd = opened('a')
say('a', fd)`,
      ['unshare', '--mount'],
    ),
  ).toEqual(['mounted/a:written', 'a:EIO']);
});

test('the space of a deleted file is free as soon as it is closed', async () => {
  expect(
    await saidBy(
      `
import subprocess
os.mkdir('mounted')
subprocess.run(['mount', '-t', 'tmpfs', 'none', 'mounted'], check=True)
def free(): return os.statvfs('mounted').f_bfree
before = free()
fd = opened('mounted/a')
os.ftruncate(fd, 1 << 20)
os.posix_fallocate(fd, 0, 1 << 20)
say('mounted/a', fd)
os.unlink('mounted/a')
say('deleted', fd)
held = free()
os.close(fd)
os.write(1, f'{before - held >= 256} {free() == before}\\n'.encode())`,
      ['unshare', '--mount'],
    ),
  ).toEqual(['mounted/a:written', 'deleted:written', 'True True']);
});

/** A file system with one file, whose attributes the kernel requests each time that it needs them. */
const FUSE = `
import struct, threading
def attributes(inode):
    mode = 0o40755 if inode == 1 else 0o100644
    return struct.pack('<6Q10I', inode, *[0] * 8, mode, 1, 0, 0, 0, 4096, 0)
def answer(opcode, inode, body):
    if opcode == 26: return struct.pack('<IIIIHHIIHHI', 7, 31, 65536, 0, 12, 10, 65536, 1, 0, 0, 0).ljust(64, b'\\0')
    if opcode == 1: return struct.pack('<4Q2I', 2, *[0] * 5) + attributes(2)
    if opcode in (3, 4): return struct.pack('<Q2I', 0, 0, 0) + attributes(inode)
    if opcode == 14: return struct.pack('<Q2I', 1, 0, 0)
    if opcode == 16: return struct.pack('<2I', struct.unpack_from('<I', body, 16)[0], 0)
    return b'' if opcode in (18, 25) else None # RELEASE, FLUSH
def serve(device):
    while True:
        try: request = os.read(device, 1 << 18)
        except OSError: return
        _, opcode, unique, inode = struct.unpack_from('<IIQQ', request)
        if opcode in (2, 36): continue # FORGET, INTERRUPT
        told = answer(opcode, inode, request[40:])
        status = 0 if told is not None else -errno.ENOSYS
        try: os.write(device, struct.pack('<IiQ', 16 + len(told or b''), status, unique) + (told or b''))
        except FileNotFoundError: pass # the unmount gave up the request: nobody waits for a RELEASE
def mount(folder):
    device = os.open('/dev/fuse', os.O_RDWR)
    options = f'fd={device},rootmode=40000,user_id=0,group_id=0,default_permissions'
    if libc.mount(b'fuse', folder.encode(), b'fuse', 0, options.encode()): raise OSError('mount')
    return device
`;

test('a file system that the build itself serves', async () => {
  expect(
    await saidBy(
      `${FUSE}
os.mkdir('mounted')
device = mount('mounted')
server = os.fork()
if server == 0:
    serve(device)
    os._exit(0)
os.close(device)
fd = os.open('mounted/a', os.O_WRONLY)
say('mounted/a', fd)
os.close(fd)
libc.umount2(b'mounted', 0)
os.waitpid(server, 0)
fd = opened('a')
say('a', fd)`,
      ['unshare', '--mount'],
    ),
  ).toEqual(['mounted/a:written', 'a:EIO']);
});

test('one number in several processes and threads stands for the file of each', async () => {
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
