/**
 * Replays an incident to the same program that it was recorded from, although its work moves between threads: the
 * request that waited in the incident waits in each run, as measured by the program itself and not by the runner.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type LoopDevice, loopDevice } from '../kernel/loop_device.ts';
import { run } from '../kernel/programs.ts';
import { record, removeFolders, temporaryFolder } from '../kernel/recorded_run.ts';
import { kreplay } from './kreplay.ts';

const RUNS = Number(process.env.RUNS ?? 3);
const ATTEMPTS_MAX = 3;
/** The file system is frozen for 300 ms. */
const FELT_MS_MIN = 250;
/** Index of the one request to a log that waits; with a file per goroutine, the number of goroutines that wait. */
const [SLOW_REQUEST, GOROUTINES] = [31, 16];

const SOURCES = join(import.meta.dirname, 'moved_work');
const programs = temporaryFolder();
const GO = { ...process.env, GO111MODULE: 'off', CGO_ENABLED: '0', GOCACHE: join(programs, 'go'), GOFLAGS: '' };

function built(source: string): string {
  const program = join(programs, source.replace('.go', ''));
  run('go', ['build', '-o', program, join(SOURCES, source)], { env: GO });
  return program;
}

interface Build {
  command: () => string[];
  expected: number;
}

const BUILDS: Readonly<Record<string, Build>> = {
  Go: { command: () => [built('one_log.go')], expected: SLOW_REQUEST },
  'Go, with a file each': { command: () => [built('many_files.go')], expected: GOROUTINES },
  Python: { command: () => ['python3', join(SOURCES, 'one_log.py')], expected: SLOW_REQUEST },
  Java: {
    command() {
      run('javac', ['-d', programs, join(SOURCES, 'OneLog.java')]);
      return ['java', '-cp', programs, 'OneLog'];
    },
    expected: SLOW_REQUEST,
  },
  Node: { command: () => ['node', join(SOURCES, 'one_log.mjs')], expected: SLOW_REQUEST },
  // etcd's start reaches the log in a different number of writes in each run.
  etcd: { command: () => ['python3', join(SOURCES, 'etcd.py')], expected: SLOW_REQUEST },
};

let disk: LoopDevice;
beforeEach(() => {
  disk = loopDevice(300);
  run('mkfs.ext4', ['-q', '-F', '-E', 'lazy_itable_init=0', disk.path]);
  run('mount', [disk.path, disk.mountPoint]);
});
afterEach(() => disk.remove());
afterAll(removeFolders);

/**
 * Parses a program's output: which request waited, or how many goroutines did, and how long; then the number of syncs
 * that the program itself made before the requests, or which request of each goroutine waited.
 */
function feltIn(text: string) {
  const [which, waitedMs, beside = ''] = text.trim().split(' ');
  const ownSyncs = Number(/^syncs=(\d+)$/.exec(beside)?.[1] ?? 0);
  return { which: Number(which), waitedMs: Number(waitedMs), ownSyncs, requests: ownSyncs ? '' : beside };
}

test.each(Object.entries(BUILDS))(
  '%s',
  async (_name, { command, expected }) => {
    const words = [...command(), disk.mountPoint];
    let output = '';
    const { dataFolder } = await record(() => {
      output = run(words[0]!, [...words.slice(1), 'record']);
    });
    const incident = feltIn(output);
    expect(incident.which).toBe(expected);
    const recording = join(dataFolder, 'recording.kreplay');
    for (let runs = 0, attempts = 0; runs < RUNS; attempts++) {
      run('sh', ['-c', `rm -rf ${disk.mountPoint}/log*`]);
      const report = join(programs, 'report.json');
      const options = ['run', '--bundle', recording, '--transaction', 'order', '--report', report];
      const felt = feltIn(kreplay([...options, '--', ...words]).stdout);
      const { verdict, reasons } = JSON.parse(readFileSync(report, 'utf8'));
      // The report says if the machine is too noisy: such a run proves nothing.
      if (verdict !== 'replayed' && JSON.stringify(reasons).includes('noisy') && attempts < RUNS + ATTEMPTS_MAX)
        continue;
      expect([verdict, reasons]).toEqual(['replayed', reasons]);
      // Each additional sync at the start may be taken for one of a request and shift the index.
      const within = Math.abs(felt.ownSyncs - incident.ownSyncs);
      expect(Math.abs(felt.which - expected)).toBeLessThanOrEqual(within);
      expect(felt.waitedMs).toBeGreaterThan(FELT_MS_MIN);
      expect(felt.requests).toBe(incident.requests);
      runs++;
    }
  },
  240_000,
);
