/**
 * What becomes of data when the process of a task that wrote it is not known, because its user has used up the room for
 * definitions: no other task is the owner of what both took part in, and tasks that are not known are not one owner.
 */
import { chmodSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { BlockIoEvent } from '../../../bpf/schema/api.ts';
import { type LoopDevice, loopDevice } from '../loop_device.ts';
import { isMissedEnd } from '../missed_ends.ts';
import { run } from '../programs.ts';
import { readRecording, removeFolders, startAgent, temporaryFolder } from '../recorded_run.ts';

/** A write of this size to /dev/null shows under which name a task was recorded. */
const SIGN_BYTES = 3;
/** Each is a request of its own. */
const PAGES = 8;

/**
 * MOUNTPOINT: uses up the room of a user with markers, then makes journal transactions and writes pages, each by tasks of
 * this user, by known tasks, or by both. The files have their blocks already, as a thread of the kernel would allocate
 * new ones.
 */
const TASKS = `
import os, sys
mounted = sys.argv[1]
null = os.open('/dev/null', os.O_WRONLY)

def in_child(work):
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0

def as_nobody(work):
    def change():
        os.setgid(65534)
        os.setuid(65534)
        work()
    in_child(change)

def known(label, work):
    def change():
        os.write(null, b'KREPLAY1 txn=' + label.encode())
        work()
    in_child(change)

def unknown(work):
    def sign():
        os.write(null, b'x' * ${SIGN_BYTES})
        work()
    as_nobody(sign)

def use_up():
    for i in range(1500):
        os.write(null, b'KREPLAY1 txn=%04d' % i + b'x' * 900)

def sync(name):
    file = os.open(mounted + '/' + name, os.O_RDONLY)
    os.fsync(file)
    os.close(file)

def make(name):
    return lambda: os.mkdir(mounted + '/' + name)

def put(name, at, size):
    def write():
        file = os.open(mounted + '/' + name, os.O_WRONLY)
        for page in range(${PAGES}): os.pwrite(file, b'x' * size, page * 65536 + at)
    return write

def execute(name):
    put = 'printf x | dd of="$0" bs=1 seek=$((page * 65536)) conv=notrunc status=none'
    script = 'for page in 0 1 2 3 4 5 6 7; do %s; done' % put
    return lambda: os.execv('/bin/sh', ['sh', '-c', script, mounted + '/' + name])

as_nobody(use_up)

known('alone', make('a'))
sync('a')
known('joined-first', make('b'))
unknown(make('c'))
sync('c')
unknown(make('d'))
known('joined-second', make('e'))
sync('e')
unknown(make('f'))
unknown(make('g'))
sync('g')

known('wrote-first', put('file-0', 0, 16))
unknown(put('file-0', 16, 16))
sync('file-0')
unknown(put('file-1', 0, 16))
known('wrote-second', put('file-1', 16, 16))
sync('file-1')
unknown(put('file-2', 0, 16))
unknown(put('file-2', 16, 16))
sync('file-2')
unknown(execute('file-3'))
sync('file-3')
`;

let disk: LoopDevice;
let recorded: ReturnType<typeof readRecording>;
/** Write requests to the disk. */
let requests: BlockIoEvent[];

beforeAll(async () => {
  const dataFolder = temporaryFolder();
  const tasks = join(temporaryFolder(), 'tasks.py');
  writeFileSync(tasks, TASKS);
  disk = loopDevice(64);
  chmodSync(dirname(disk.mountPoint), 0o755);
  run('mkfs.ext4', ['-q', '-F', '-b', '4096', '-E', 'lazy_itable_init=0,lazy_journal_init=0', disk.path]);
  // A transaction is committed by a call of the tasks only.
  run('mount', ['-o', 'commit=600', disk.path, disk.mountPoint]);
  chmodSync(disk.mountPoint, 0o777);
  for (const name of [0, 1, 2, 3].map((i) => join(disk.mountPoint, `file-${i}`))) {
    writeFileSync(name, Buffer.alloc(PAGES * 65536));
    chmodSync(name, 0o666);
  }
  run('sync', ['-f', disk.mountPoint]);
  const agent = await startAgent(dataFolder);
  agent.process.kill('SIGSTOP');
  try {
    run('python3', [tasks, disk.mountPoint]);
  } finally {
    agent.process.kill('SIGCONT');
  }
  await agent.stop();
  recorded = readRecording(dataFolder);
  requests = recorded.blockIos().filter(({ device, operation }) => device === disk.name && operation === 'write');
}, 120_000);

afterAll(() => {
  disk.remove();
  removeFolders();
});

const isOfJournal = ({ comm }: BlockIoEvent) => comm.startsWith('jbd2/');
const namesIn = ({ origins }: BlockIoEvent) => origins.map(({ transaction_id }) => transaction_id);

/** What requests say of their owner, each answer once, with bytes as a share of the request. */
function answersOf(some: readonly BlockIoEvent[]): unknown[] {
  const answers = some.map(({ transaction_id, attribution, origins, bytes, unnamed_bytes }) => {
    const shareOf = (count: bigint | null) => (count === bytes ? 'all' : Number(count));
    const named = origins.map((origin) => `${origin.transaction_id} ${shareOf(origin.bytes)}`);
    return { transaction_id, quality: attribution.quality, named, unnamed: shareOf(unnamed_bytes) };
  });
  return [...new Map(answers.map((answer) => [JSON.stringify(answer), answer])).values()];
}

/** The kernel may have hidden the ends of all requests of a case. */
function expectAnswers(some: readonly BlockIoEvent[], expected: object): void {
  if (some.length === 0 && recorded.losses().some(isMissedEnd)) return;
  expect(answersOf(some)).toEqual([expected]);
}

const shared = (name: string) => ({ transaction_id: null, quality: 'shared', named: [`${name} 0`], unnamed: 'all' });
const NOBODYS = { transaction_id: null, quality: 'none', named: [], unnamed: 'all' };

test('the tasks are recorded without a name', () => {
  const signs = recorded.writes({ comms: ['python3'] }).filter(({ result }) => result === BigInt(SIGN_BYTES));
  expect(signs).toHaveLength(9);
  for (const { service_name, transaction_id } of signs)
    expect([service_name, transaction_id]).toEqual(['unknown', null]);
});

test('the only task of a journal transaction is its exact owner', () => {
  const own = requests.filter((request) => isOfJournal(request) && namesIn(request).includes('alone'));
  expectAnswers(own, { transaction_id: 'alone', quality: 'exact', named: ['alone all'], unnamed: 0 });
});

test.each(['joined-first', 'joined-second'])('a known task that %s does not own the journal of both', (name) => {
  expectAnswers(
    requests.filter((request) => isOfJournal(request) && namesIn(request).includes(name)),
    shared(name),
  );
});

test('the journal of tasks that are not known is not of one owner, and not of the kernel', () => {
  expectAnswers(
    requests.filter((request) => isOfJournal(request) && namesIn(request).every((name) => name === null)),
    NOBODYS,
  );
});

test.each(['wrote-first', 'wrote-second'])('a known task that %s does not own the page of both', (name) => {
  const pages = requests.filter((request) => !isOfJournal(request) && namesIn(request).includes(name));
  expectAnswers(pages, shared(name));
  for (const { service_name } of pages) expect(service_name).toBe('unknown');
});

test('pages of tasks that are not known are not of one owner, also if a program of theirs was executed', () => {
  const pages = requests.filter((request) => !isOfJournal(request) && namesIn(request).every((name) => name === null));
  expectAnswers(pages, NOBODYS);
});
