/**
 * The duration of a transaction by the caller's own clock: a program that writes to the page cache and ends is done in
 * milliseconds, and threads of the kernel write its data to the disk seconds later.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { openReader } from '../../agent/recording/read/reader.ts';
import { type LoopDevice, loopDevice } from './loop_device.ts';
import { bash, run } from './programs.ts';
import { record, removeFolders, temporaryFolder } from './recorded_run.ts';

const LATER_MS = 2000;
const BYTES = 3 << 20;

/** Prints how long it took by CLOCK_REALTIME, in nanoseconds. */
const PROGRAM = `
import os, sys, time
mark = os.open('/dev/null', os.O_WRONLY)
file = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
text = b'x' * ${BYTES / 3}
began = time.time_ns()
os.write(mark, f'KREPLAY1 txn={sys.argv[2]}'.encode())
for part in range(3): os.write(file, text)
if sys.argv[3] == 'sync': os.fsync(file)
os.write(mark, b'KREPLAY1 end')
print(time.time_ns() - began)
`;

const disk: LoopDevice = loopDevice(256);
const folder = temporaryFolder();

afterAll(() => {
  run('umount', [disk.mountPoint]);
  disk.remove();
  removeFolders();
});

test('the duration is no longer than the caller waited, and later write-back is given separately, to the byte', async () => {
  const script = join(folder, 'program.py');
  writeFileSync(script, PROGRAM);
  run('mkfs.ext4', ['-q', '-F', '-E', 'lazy_itable_init=0', disk.path]);
  run('mount', [disk.path, disk.mountPoint]);
  const waited = (transaction: string, how: string) =>
    BigInt(bash(`python3 ${script} ${join(disk.mountPoint, transaction)} ${transaction} ${how}`).trim());
  const waitedNs = new Map<string, bigint>();
  const { dataFolder } = await record(async () => {
    for (const how of ['cached', 'sync']) waitedNs.set(how, waited(how, how));
    await sleep(LATER_MS);
    run('sync', ['-f', disk.mountPoint]);
  });
  const reader = openReader(join(dataFolder, 'recording.kreplay'));
  const [cached, synced] = ['cached', 'sync'].map((id) => reader.readTransaction(id)!);
  const durationOf = ({ firstTimestampNs, lastEndNs }: NonNullable<typeof cached>) => lastEndNs - firstTimestampNs;
  for (const [how, one] of [
    ['cached', cached],
    ['sync', synced],
  ] as const) {
    expect(durationOf(one!)).toBeGreaterThan(0n);
    expect(durationOf(one!)).toBeLessThanOrEqual(waitedNs.get(how)!);
  }
  // A sync writes for its caller, who waits: most of that time is in the calls.
  expect(Number(durationOf(synced!))).toBeGreaterThan(Number(waitedNs.get('sync')) / 2);
  const { writtenBack, firstTimestampNs } = cached!;
  const lossless = reader.losses().length === 0;
  reader.close();
  // The bytes are its pages, and what it changed of the file system's own data.
  if (lossless) expect(Number(writtenBack!.bytes)).toBeGreaterThanOrEqual(BYTES);
  expect(Number(writtenBack!.bytes)).toBeLessThan(BYTES * 1.1);
  // Another program on the host may sync all disks before this test does.
  expect(writtenBack!.lastEndNs - firstTimestampNs).toBeGreaterThan(waitedNs.get('cached')!);
});
