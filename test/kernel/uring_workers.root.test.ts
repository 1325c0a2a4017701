/**
 * Writes that the kernel's own threads make for a program through io_uring. The threads are created under one
 * transaction and kept for the next ones: the writes of those may have no owner, but not the first one.
 */
import { join } from 'node:path';
import { truthOf } from './disk_truth.ts';
import { type LoopDevice, loopDevice } from './loop_device.ts';
import { bash, compileProgram, run } from './programs.ts';
import { newRecorder, type Recorded, removeFolders } from './recorded_run.ts';

const BLOCKS = 64;

let disk: LoopDevice;

beforeEach(() => {
  disk = loopDevice(64);
  run('mkfs.ext4', ['-q', '-F', '-E', 'lazy_itable_init=0', disk.path]);
  run('mount', [disk.path, disk.mountPoint]);
});

afterEach(() => disk.remove());

const { record, stop } = newRecorder();

afterAll(async () => {
  await stop();
  removeFolders();
});

function truth(recorded: Recorded) {
  run('umount', [disk.mountPoint]);
  return truthOf(
    disk.path,
    recorded.blockIos().filter(({ device, operation }) => device === disk.name && operation === 'write'),
  );
}

/** Lost events: on a busy machine the kernel may not show the end of a request. */
const lostOf = (recorded: Recorded) => recorded.losses().reduce((sum, { lost }) => sum + lost, 0);

const program = () => compileProgram('uring_writes');

test.each(['worker', 'poller'])('by a %s under consecutive transactions, and under none', async (how) => {
  const transactions = ['first', 'second', 'nobody', 'third'];
  const recorded = await record(() => {
    run(program(), [join(disk.mountPoint, 'f'), how, ...transactions]);
  });
  const { right, none, shared, wrong } = truth(recorded);
  expect({ shared, wrong }).toEqual({ shared: 0, wrong: 0 });
  expect(right + none + lostOf(recorded)).toBeGreaterThanOrEqual(transactions.length * BLOCKS);
  expect(right + lostOf(recorded)).toBeGreaterThanOrEqual(BLOCKS);
});

test.each(['worker', 'poller'])('by a %s of one transaction', async (how) => {
  const recorded = await record(() => {
    bash(`for i in 1 2 3; do ${program()} ${join(disk.mountPoint, '$i')} ${how} only-$i & done; wait`);
  });
  const { right, ...others } = truth(recorded);
  expect(others).toEqual({ shared: 0, none: 0, wrong: 0 });
  expect(right + lostOf(recorded)).toBeGreaterThanOrEqual(3 * BLOCKS);
});
