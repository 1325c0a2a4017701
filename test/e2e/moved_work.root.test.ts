/**
 * Replays an incident to the same program that it was recorded from, although its work moves between threads: the
 * request that waited in the incident waits in each run, as measured by the program itself and not by the runner.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { type LoopDevice, loopDevice } from '../kernel/loop_device.ts';
import { built, ROOT, run } from '../kernel/programs.ts';
import { type Recorded, record, removeFolders, temporaryFolder } from '../kernel/recorded_run.ts';
import { times } from '../repeats.ts';
import { kreplay } from './kreplay.ts';

/** Index of the one request to a log that waits. */
const SLOW_REQUEST = '31';
const GOROUTINES = 16;
/** A busy machine may add a long wait to those of the incident, but not to every request. */
const BY_CHANCE_MAX = 2;

const SOURCES = join(import.meta.dirname, 'moved_work');
const programs = temporaryFolder();
const GO = { GO111MODULE: 'off', CGO_ENABLED: '0', GOCACHE: join(ROOT, 'build/test/go'), GOFLAGS: '' };

function goProgram(name: string): string {
  const source = join(SOURCES, `${name}.go`);
  return built([source], Object.values(GO), `moved_work_${name}`, (program) =>
    run('go', ['build', '-o', program, source], { env: { ...process.env, ...GO } }),
  );
}

function javaProgram(): string {
  const source = join(SOURCES, 'OneLog.java');
  return built([source], [], 'moved_work_java', (folder) => run('javac', ['-d', folder, source]));
}

const BUILDS: Readonly<Record<string, () => string[]>> = {
  go: () => [goProgram('one_log')],
  'go-with-a-file-each': () => [goProgram('many_files')],
  python: () => ['python3', join(SOURCES, 'one_log.py')],
  java: () => ['java', '-XX:TieredStopAtLevel=1', '-XX:+UseSerialGC', '-cp', javaProgram(), 'OneLog'],
  node: () => ['node', join(SOURCES, 'one_log.mjs')],
  // etcd's start reaches the log in a different number of writes in each run.
  etcd: () => ['python3', join(SOURCES, 'etcd.py')],
};

let disk: LoopDevice | undefined;
let recorded: Recorded;
const commands = new Map<string, string[]>();
const incidents = new Map<string, string>();

beforeAll(async () => {
  disk = loopDevice(300);
  run('mkfs.ext4', ['-q', '-F', '-E', 'lazy_itable_init=0', disk.path]);
  run('mount', [disk.path, disk.mountPoint]);
  for (const [name, command] of Object.entries(BUILDS)) commands.set(name, [...command(), disk.mountPoint]);
  recorded = await record(() => {
    for (const [name, words] of commands) incidents.set(name, outputOf([...words, name]));
  });
}, 120_000);

afterAll(() => {
  disk?.remove();
  removeFolders();
});

/** Each run begins with an empty log. */
function removeLogs(): void {
  run('sh', ['-c', `rm -rf ${disk!.mountPoint}/*log*`]);
}

function outputOf([file, ...args]: readonly string[]): string {
  removeLogs();
  return run(file!, args);
}

/** The requests that waited, by goroutine. */
const waitsIn = (output: string): string[][] =>
  output
    .trim()
    .split('|')
    .map((text) => text.split(',').filter(Boolean));

test.each(Object.keys(BUILDS))(
  '%s',
  (name) => {
    const incident = waitsIn(incidents.get(name)!);
    if (name === 'go-with-a-file-each') expect(incident.filter((waits) => waits.length > 0)).toHaveLength(GOROUTINES);
    else expect(incident).toEqual([expect.arrayContaining([SLOW_REQUEST])]);
    for (let runs = 0; runs < times(1); runs++) {
      removeLogs();
      const report = join(programs, 'report.json');
      const bundle = join(recorded.dataFolder, 'recording.kreplay');
      const options = ['run', '--bundle', bundle, '--transaction', name, '--report', report];
      const felt = waitsIn(kreplay([...options, '--', ...commands.get(name)!]).stdout);
      const { verdict, reasons } = JSON.parse(readFileSync(report, 'utf8')) as { verdict: string; reasons: string[] };
      // The waits are late on a machine that is too noisy, and the verdict says so, but they are where they belong.
      const isOfMachine = reasons.every((reason) => /too noisy/.test(reason));
      const isWorse = reasons.length > 0 && isOfMachine && verdict === 'partial';
      expect([verdict, reasons]).toEqual([isWorse ? 'partial' : 'replayed', reasons]);
      expect(felt).toEqual(incident.map((waits) => expect.arrayContaining(waits)));
      const count = (of: readonly string[][]) => of.reduce((sum, waits) => sum + waits.length, 0);
      expect(count(felt) - count(incident)).toBeLessThanOrEqual(BY_CHANCE_MAX * incident.length);
    }
  },
  240_000,
);
