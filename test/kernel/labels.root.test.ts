// A marker line labels what its thread does next, its children and its threads; and never anything else.
import { join } from 'node:path';
import { AS_NOBODY } from '../unprivileged.ts';
import { bash, compileProgram, run } from './programs.ts';
import { newRecorder, type Recorded, record, removeFolders, temporaryFolder } from './recorded_run.ts';

const folder = temporaryFolder();
const out = join(folder, 'out');
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';

/** The agent of all tests here, except for one with an option. */
const shared = newRecorder();

afterAll(async () => {
  await shared.stop();
  removeFolders();
});

/** Each line that a script writes to `out` is one event whose size identifies the line. */
function script(lines: string): void {
  bash(`out=${out}; say() { printf '%*s' "$1" '' >>"$out"; }; mark() { echo "KREPLAY1 $*" >/dev/null; }\n${lines}`);
}

/** Owner of the write of this size. */
function ownerOf(recorded: Recorded, bytes: number) {
  const writes = recorded.writes().filter((event) => event.file === out && event.result === BigInt(bytes));
  expect(writes).toHaveLength(1);
  const { transaction_id, attribution } = writes[0]!;
  return [transaction_id, attribution.source, attribution.quality].join(' ');
}

test('a marker applies to its process and what it forks and execs, until it is replaced or ended', async () => {
  const recorded = await shared.record(() => {
    script(`
      say 1
      mark txn=a; say 2
      (say 3)
      bash -c 'printf %4s "" >>"$0"' ${out}
      (mark txn=b; say 5; (say 6))
      say 7
      say 8 | cat
      mark txn=c; say 9
      mark endless; mark txn=c; mark end; say 10
      (say 11)
      mark txn=d; (mark end; say 12); say 13
      setsid -w dd if=/dev/zero bs=14 count=1 2>/dev/null >>${out}
      exec dd if=/dev/zero bs=15 count=1 2>/dev/null >>${out}`);
  });
  const owners = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15].map((bytes) => ownerOf(recorded, bytes));
  expect(owners).toEqual([
    ' none none',
    'a marker exact',
    'a inherited inherited',
    'a inherited inherited',
    'b marker exact',
    'b inherited inherited',
    'a marker exact',
    'a inherited inherited',
    'c marker exact',
    ' none none',
    ' none none',
    ' none none',
    'd marker exact',
    'd inherited inherited',
    'd marker exact',
  ]);
});

test('a default of the process applies to its other threads and its children, and yields to their own markers', async () => {
  const program = compileProgram('threads');
  const recorded = await shared.record(() => {
    run(program, ['process-default', out]);
  });
  expect([101, 102, 103, 104].map((bytes) => ownerOf(recorded, bytes))).toEqual([
    'whole marker exact',
    'own marker exact',
    'whole inherited inherited',
    ' none none',
  ]);
});

test('a write belongs to the transaction of its process when the write began', async () => {
  const program = compileProgram('threads');
  const recorded = await shared.record(() => {
    run(program, ['blocked', out]);
  });
  const [blocked] = recorded.writes({ comms: ['threads'] }).filter(({ result }) => result === 8192n);
  expect(blocked).toMatchObject({ transaction_id: 'before', file_kind: 'pipe' });
});

test('an unreadable line for /dev/null may be a marker: what follows has no owner', async () => {
  // A page that was never touched is not present, and /dev/null does not read it.
  const recorded = await shared.record(() => {
    run('python3', [
      '-c',
      `
import ctypes, mmap, os, sys
libc = ctypes.CDLL(None, use_errno=True)
null = os.open("/dev/null", os.O_WRONLY)
out = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
def say(size): os.write(out, b"x" * size)
os.write(null, b"KREPLAY1 txn=before"); say(401)
text = mmap.mmap(-1, 1 << 20)
address = ctypes.addressof(ctypes.c_char.from_buffer(text))
assert libc.write(null, ctypes.c_void_p(address + 65536), 100) == 100
say(402)
os.write(null, b"KREPLAY1 txn=after"); say(403)`,
      out,
    ]);
  });
  expect([401, 402, 403].map((size) => ownerOf(recorded, size))).toEqual([
    'before marker exact',
    ' none none',
    'after marker exact',
  ]);
  expect(recorded.losses().filter(({ cause }) => cause === 'marker_unreadable')).toMatchObject([{ lost: 1 }]);
});

test('a thread has the context of its creator only as long as the creator holds it', async () => {
  const program = compileProgram('threads');
  const recorded = await shared.record(() => {
    run(program, ['pool', out]);
  });
  expect([201, 202, 203, 204].map((bytes) => ownerOf(recorded, bytes))).toEqual([
    'first inherited inherited',
    ' none none',
    'pooled marker exact',
    'second inherited inherited',
  ]);
});

test('all fields of a marker are accepted, and malformed ones are left out', async () => {
  const recorded = await shared.record(() => {
    script(`
      mark txn=caf%C3%A9%20%25 trace=${TRACE} span=00f067aa0ba902b7 svc=shop x-note=1; say 1
      mark txn=t2 trace=nonsense span=0; say 2
      mark tp=00-${TRACE}-00f067aa0ba902b7-01; say 3
      printf 'KREPLAY1 txn=no-line-feed' >/dev/null; say 4
      echo 'KREPLAY2 txn=other' >/dev/null; say 5
      echo 'KREPLAY1 txn=in-a-file' >>${out}.log; say 6
      mark $(printf 'txn=%0950d' 0); say 7
      mark $(printf 'txn=%01050d' 1); say 8`);
  });
  const ids = (bytes: number) => {
    const [event] = recorded.writes().filter(({ file, result }) => file === out && result === BigInt(bytes));
    return [event!.transaction_id, event!.trace_id, event!.span_id, event!.service_name];
  };
  expect(ids(1)).toEqual(['café %', TRACE, '00f067aa0ba902b7', 'shop']);
  expect(ids(2)).toEqual(['t2', null, null, 'bash']);
  expect(ids(3)).toEqual([null, TRACE, '00f067aa0ba902b7', 'bash']);
  expect(ids(4)).toEqual(['no-line-feed', null, null, 'bash']);
  expect(ids(5)).toEqual(ids(4));
  expect(ids(6)).toEqual(ids(4));
  expect(ids(7)[0]).toBe('0'.repeat(950));
  // A line longer than a marker may be is not one, so the marker before it stands.
  expect(ids(8)).toEqual(ids(7));
  expect(recorded.events({ traceId: TRACE }).length).toBeGreaterThan(0);
  const writes = recorded.writes();
  const { pid } = writes.find(({ file }) => file === out)!;
  expect(writes.filter((event) => event.file === '/dev/null' && event.pid === pid)).toHaveLength(2);
});

test('only root and the user of the agent may set a service', async () => {
  const command = `echo "KREPLAY1 txn=anyone svc=shop" >/dev/null; { printf x 2>&1; } >>/dev/full || true`;
  const asNobody = () => run(AS_NOBODY[0], [...AS_NOBODY.slice(1), 'bash', '-c', command]);
  const namesIn = (recorded: Recorded) =>
    recorded.writes({ transactionId: 'anyone' }).map((event) => event.service_name);
  expect(namesIn(await shared.record(() => void asNobody()))).toEqual(['bash', 'bash']);
  expect(namesIn(await record(() => void asNobody(), ['--trust-services']))).toEqual(['shop', 'shop']);
});

test('a flood of markers blocks no other process, and the markers that it evicts are counted', async () => {
  const recorded = await shared.record(() => {
    bash(`for flood in 1 2; do python3 -c '
import os
null = os.open("/dev/null", os.O_WRONLY)
for i in range(150000): os.write(null, b"KREPLAY1 txn=f%d" % i)' & done; wait`);
    script('for size in $(seq 301 320); do mark txn=after; say $size; sleep 0.1; done');
  });
  // Labels that are defined while the ring is full are lost; the others are right, and soon none is lost.
  const sizes = recorded.writes({ comms: ['bash'] }).filter(({ result }) => result > 300n && result <= 320n);
  expect(new Set(sizes.map(({ transaction_id }) => transaction_id ?? 'after'))).toEqual(new Set(['after']));
  expect(ownerOf(recorded, 320)).toBe('after marker exact');
  // The flood has its own loss; besides, a busy kernel may have skipped the program at some call's end.
  const others = ['definition_lost', 'end_missed'];
  const causes = new Set(recorded.losses().map(({ cause }) => cause));
  expect([...causes].filter((cause) => !others.includes(cause))).toEqual(['marker_flood']);
});
