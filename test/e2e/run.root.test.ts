/**
 * Third-party programs are recorded, and run again under what was recorded, with 5 ms more for each write and each wait
 * for the disk. Their results stay the same, and nearly all of the time goes to the calls that it belongs to.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RunResult } from '../../daemon/run/report/result.ts';
import { run } from '../kernel/programs.ts';
import { type Recorded, record, removeFolders } from '../kernel/recorded_run.ts';
import { KREPLAY, kreplay, temporaryFolder } from './kreplay.ts';

const EXTRA_SECONDS = 0.005;

const ROWS = 13;
const SQL = Array.from({ length: ROWS }, (_, row) => `insert into t values (${row});`).join(' ');

interface Program {
  /** A shell script; its folder is $0. */
  script: string;
  /** A shell script that prints what the program left: it has to be the same both times. */
  result: string;
  /** Minimum number of calls that have to be delayed. */
  calls: number;
  /** Minimum share of the planned time that its own calls get. */
  share: number;
}

/** Redis becomes a daemon: it outlives the command that starts it, and is delayed as well. */
const REDIS = `
cd $0
redis-server --port 0 --unixsocket s --dir $0 --save '' --appendonly yes --appendfsync always --logfile $0/log \
  --pidfile $0/pid --daemonize yes
until redis-cli -s s ping; do sleep 0.05; done
for i in 1 2 3 4 5 6 7 8 9 10 11; do redis-cli -s s set key$i $i; done
redis-cli -s s shutdown nosave
while [ -S s ]; do sleep 0.05; done`;

const PROGRAMS: Record<string, Program> = {
  sqlite3: {
    script: `sqlite3 $0/x.db 'create table t (a)' '${SQL}'`,
    result: 'sqlite3 $0/x.db "select count(*), sum(a) from t"',
    calls: ROWS * 4,
    share: 0.9,
  },
  dd: {
    script: 'dd if=/dev/zero of=$0/out bs=4k count=31 conv=fsync status=none',
    result: 'cksum < $0/out',
    calls: 32,
    share: 0.9,
  },
  git: {
    script: [
      'cd $0 && git init -q . && git config user.email a@b && git config user.name a && git config core.fsync all',
      'for i in 1 2 3; do echo $i > file; git add file; git commit -q -m $i --date=2026-01-01T00:00:00Z; done',
    ].join('\n'),
    result: 'cd $0 && git log --format=%s,%T && git fsck --strict 2>&1',
    calls: 20,
    // The names of its files are random, or derived from the time.
    share: 0.4,
  },
  redis: {
    script: `(${REDIS}) > /dev/null 2>&1`,
    result: 'cksum < $0/appendonlydir/appendonly.aof.1.incr.aof',
    calls: 22,
    share: 0.7,
  },
  tar: {
    script:
      'cd $0 && for i in 1 2 3 4 5 6 7; do echo $i > f$i; done && tar cf all.tar f? && mkdir to && tar xf all.tar -C to',
    result: 'cd $0/to && cksum *',
    calls: 15,
    share: 0.7,
  },
};

let folder: ReturnType<typeof temporaryFolder>;
let recorded: Recorded;
const results = new Map<string, string>();

const shell = (script: string, place: string) => ['sh', '-ec', script, place];
const placeOf = (name: string) => join(folder.path, name);

beforeAll(async () => {
  folder = temporaryFolder();
  recorded = await record(() => {
    for (const [name, { script }] of Object.entries(PROGRAMS)) {
      run('mkdir', [placeOf(name)]);
      run(KREPLAY, ['exec', '--transaction', name, '--', ...shell(script, placeOf(name))], { stdio: 'inherit' });
    }
  });
  for (const [name, { result }] of Object.entries(PROGRAMS)) {
    const [file, ...args] = shell(result, placeOf(name)) as [string, ...string[]];
    results.set(name, run(file, args));
    run('rm', ['-r', placeOf(name)]);
  }
});
afterAll(() => {
  folder.remove();
  removeFolders();
});

/** The folder is as it was before the incident, whatever another test has left in it. */
function makePlace(name: string): void {
  run('rm', ['-rf', placeOf(name)]);
  run('mkdir', [placeOf(name)]);
}

test.each(Object.entries(PROGRAMS))('%s', (name, { script, result, calls, share }) => {
  makePlace(name);
  const report = join(folder.path, `${name}.json`);
  const incident = ['--bundle', join(recorded.dataFolder, 'recording.kreplay'), '--transaction', name];
  const started = performance.now();
  // The share of each program is judged below.
  const options = ['--extra-latency', '5ms', '--require', 'none', '--report', report];
  const ended = kreplay(['run', ...incident, ...options, '--', ...shell(script, placeOf(name))]);
  const seconds = (performance.now() - started) / 1000;
  expect([ended.status, ended.stdout]).toEqual([0, '']);
  const [file, ...args] = shell(result, placeOf(name)) as [string, ...string[]];
  expect(run(file, args)).toBe(results.get(name));
  const { figures } = JSON.parse(readFileSync(report, 'utf8')) as RunResult;
  expect(figures!.calls).toBeGreaterThanOrEqual(calls);
  expect(figures!.matched_by_duration).toBeGreaterThan(share);
  expect(seconds).toBeGreaterThan(calls * EXTRA_SECONDS * 0.8);
});

test('with --unknown class, files of git with new random names are as slow as its other files', () => {
  const { script } = PROGRAMS.git!;
  const [place, report, trace] = [placeOf('git'), join(folder.path, 'git.json'), join(folder.path, 'git.trace')];
  makePlace('git');
  const incident = ['--bundle', join(recorded.dataFolder, 'recording.kreplay'), '--transaction', 'git'];
  const strace = ['strace', '-f', '-T', '-y', '-e', 'trace=write,pwrite64,fsync,fdatasync', '-o', trace];
  const options = ['--extra-latency', '5ms', '--unknown', 'class', '--require', 'none', '--report', report];
  const ended = kreplay(['run', ...incident, ...options, '--', ...strace, ...shell(script, place)]);
  expect(ended.status).toBe(0);
  const { figures } = JSON.parse(readFileSync(report, 'utf8')) as RunResult;
  expect(figures!.how.class).toBeGreaterThan(0);
  const objects = readFileSync(trace, 'utf8').matchAll(/ (?:write|fsync)\(\d+<.*tmp_obj_.*<(\S+)>$/gm);
  const seconds = [...objects].map(([, took]) => Number(took));
  expect(seconds.length).toBeGreaterThan(9);
  expect(Math.min(...seconds)).toBeGreaterThan(EXTRA_SECONDS);
});
