// A write has the name of its file that /proc/PID/fd shows at that moment.
import { join } from 'node:path';
import { bash, run } from './programs.ts';
import { newRecorder, type Recorded, removeFolders, temporaryFolder } from './recorded_run.ts';

const folder = temporaryFolder();
const deep = join(folder, ...Array.from({ length: 40 }, (_, i) => `level-${i}`));

const shared = newRecorder();

let recorded: Recorded;
/** The process of the script. */
let pid: number;
/** The names that the script itself found in /proc/self/fd, by the size that it wrote. */
let expected: Map<number, string>;

// Python can make every kind of file; each write's size identifies its file.
const SCRIPT = `
import os, socket, sys
folder, deep = sys.argv[1:]
size = 0
def say(fd):
    global size
    size += 1
    print(size, os.getpid(), os.readlink('/proc/self/fd/%d' % fd), flush=True)
    try: os.write(fd, b'.' * (1000 + size))
    except OSError: pass
def opened(path): return os.open(path, os.O_WRONLY | os.O_CREAT)
say(opened(folder + '/plain'))
a, b = os.pipe(); say(b)
a, b = socket.socketpair(); say(a.fileno())
say(os.memfd_create('memory'))
say(os.eventfd(0))
fd = opened(folder + '/before'); say(fd)
os.rename(folder + '/before', folder + '/after'); say(fd)
os.unlink(folder + '/after'); say(fd)
os.makedirs(deep); say(opened(deep + '/leaf'))
say(opened('/dev/zero'))
os.mkfifo(folder + '/fifo'); say(os.open(folder + '/fifo', os.O_RDWR))
say(opened(folder + '/mounted/inside'))
say(opened('/dev/shm/shared')); os.unlink('/dev/shm/shared')
say(opened(folder + '/n\\u00e4me with blanks'))
os.mkdir(folder + '/unfinished'); fd = opened(folder + '/unfinished/log'); say(fd)
os.rename(folder + '/unfinished', folder + '/finished'); say(fd)
`;

beforeAll(async () => {
  bash(`mkdir ${folder}/mounted && mount -t tmpfs tmpfs ${folder}/mounted`);
  recorded = await shared.record(() => {
    const lines = run('python3', ['-c', SCRIPT, folder, deep]).trim().split('\n');
    expected = new Map(
      lines.map((line) => {
        const [, size, process, name] = /^(\d+) (\d+) (.*)$/.exec(line)!;
        pid = Number(process);
        return [1000 + Number(size), name!];
      }),
    );
  });
});

afterAll(async () => {
  await shared.stop();
  bash(`umount ${folder}/mounted`);
  removeFolders();
});

test('every kind of file has the name that /proc gives it', () => {
  const writes = recorded.writes({ pid }).filter(({ bytes_requested }) => expected.has(Number(bytes_requested)));
  const named = new Map(writes.map(({ bytes_requested, file }) => [Number(bytes_requested), file]));
  expect(Object.fromEntries(named)).toEqual(Object.fromEntries(expected));
});

test('kinds are distinguished', () => {
  const kinds = [1, 2, 3, 4, 5, 10, 11].map(
    (line) =>
      recorded.writes({ pid }).find(({ bytes_requested }) => bytes_requested === BigInt(1000 + line))!.file_kind,
  );
  expect(kinds).toEqual(['regular', 'pipe', 'socket', 'regular', 'anonymous', 'character_device', 'pipe']);
});

test('an invalid descriptor has no file', async () => {
  const { writes } = await shared.record(() => {
    bash(
      'exec 2>/dev/null; printf x >&77 || python3 -c "import os\ntry: os.write(77, b\'x\' * 77)\nexcept OSError: pass"',
    );
  });
  const [write] = writes({ failed: true, comms: ['python3'] });
  expect(write).toMatchObject({ file: null, file_kind: 'unknown', error: 'EBADF', bytes_requested: 77n, fd: 77 });
});
