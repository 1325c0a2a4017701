/**
 * Tests which recorded call a build's call is matched to, without a build: match.c, keys.c and plan.c, driven by lines.
 */
import { spawnSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import fc from 'fast-check';
import { EVENT_FLAGS } from '../../../daemon/run/format/plan_file.ts';
import { MATCH_KINDS } from '../../../daemon/run/format/report_file.ts';
import { times } from '../../repeats.ts';
import {
  type Call,
  drive,
  driverPath,
  endMatching,
  inFolder,
  type Matched,
  match,
  startMatching,
} from './match_driver.ts';
import { type PlannedThread, planOf } from './plans.ts';

beforeAll(startMatching);
afterAll(endMatching);

/** A thread with calls of these sizes; the target of each is 1000 plus its index. */
function thread(sizes: readonly number[], rest: Partial<PlannedThread> = {}): PlannedThread {
  const calls = sizes.map((size, i) => ({ size, targetNs: 1000 + i }));
  return { path: '/data/log', comm: 'db', calls, ...rest };
}

const eventsOf = (matched: readonly Matched[]) => matched.map(({ event }) => event);
const howsOf = (matched: readonly Matched[]) => matched.map(({ how }) => how);
const sized = (sizes: readonly number[]) => sizes.map((size) => ({ size }));
/** Returns a function that draws numbers in [0, 1), by the generator mulberry32. */
function randomNumbers(seed: number): () => number {
  let state = Math.imul(seed + 1, 0x9e3779b1);
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const range = (count: number) => Array.from({ length: count }, (_, i) => i);

describe('keys', () => {
  test.each([
    ['/data/wal/seg-0000001f.log', '/data/wal/seg-#.log'],
    ['/data/wal/000000010000000000000002', '/data/wal/#'],
    ['/tmp/550e8400-e29b-41d4-a716-446655440000/x', '/tmp/#/x'],
    ['/a/b12/c (deleted)', '/a/b#/c'],
    ['/a/deadbeef/feedface', '/a/deadbeef/feedface'],
    ['/a/deadbee1/abc123', '/a/#/abc#'],
    ['/dev/shm/x7', '/dev/shm/x#'],
  ])('the pattern of %s is %s', (path, pattern) => expect(drive(['key', 'pattern'], [path])).toEqual([pattern]));

  test.each([
    ['/data/wal/seg-0000001f.log', '/data/wal/seg-0000001f.log'],
    ['/a/b12/c (deleted)', '/a/b12/c'],
    ['socket:[1234]', 'socket'],
    ['pipe:[99]', 'pipe'],
    ['anon_inode:[eventfd]', 'anon'],
  ])('%s is %s', (path, key) => expect(drive(['key', 'path'], [path])).toEqual([key]));

  test('long names are distinguished by a difference at any place', () => {
    const names = [`/a${'x'.repeat(3000)}1`, `/a${'x'.repeat(3000)}2`, `/b${'x'.repeat(3000)}1`];
    const keys = drive(['key', 'path'], names);
    expect(new Set(keys).size).toBe(3);
    for (const key of keys) expect(key.length).toBeLessThan(512);
  });

  test('of command names', () => {
    expect(drive(['key', 'comm'], ['http-3', 'postgres', 'kworker/1:2'])).toEqual([
      'http-#',
      'postgres',
      'kworker/#:#',
    ]);
  });
});

describe('align', () => {
  test('the same calls match', () => {
    const sizes = range(200).map((i) => (i * 37) % 11);
    const matched = match([thread(sizes)], sized(sizes));
    expect(eventsOf(matched)).toEqual(range(200));
    expect(new Set(howsOf(matched))).toEqual(new Set([MATCH_KINDS.exact]));
  });

  test('a call that is no longer made is passed over', () => {
    const matched = match([thread([10, 20, 30, 40])], sized([10, 30, 40]));
    expect(eventsOf(matched)).toEqual([0, 2, 3]);
    expect(howsOf(matched)).toEqual([MATCH_KINDS.exact, MATCH_KINDS.window, MATCH_KINDS.exact]);
  });

  test('a new call gets a duration of its neighbours, and shifts nothing', () => {
    const matched = match([thread([10, 20, 30])], sized([10, 100_000, 20, 30]));
    expect(eventsOf(matched)).toEqual([0, -1, 1, 2]);
    expect(matched[1]!.how).toBe(MATCH_KINDS.extra);
    expect([1000, 1001, 1002]).toContain(matched[1]!.target);
  });

  test('calls that changed places match', () => {
    expect(eventsOf(match([thread([10, 200, 3000])], sized([200, 10, 3000])))).toEqual([1, 0, 2]);
  });

  test('a call that grew a little matches', () => {
    const matched = match([thread([100, 100, 100])], sized([110, 110, 110]));
    expect(eventsOf(matched)).toEqual([0, 1, 2]);
    expect(howsOf(matched)).toEqual(Array(3).fill(MATCH_KINDS.size));
  });

  test('sizes that vary from run to run do not match calls with the same size elsewhere', () => {
    const sizes = range(100).map((i) => (i % 15 === 14 ? 184 : 192));
    const matched = match([thread([152, 64, 200, 128, ...sizes])], sized([152, 56, 200, 120, ...sizes.map(() => 184)]));
    expect(eventsOf(matched)).toEqual(range(104));
  });

  /** A log whose records have one size, or now and then another one, at random places. */
  const puts = (seed: number, share: number) => {
    const random = randomNumbers(seed);
    return [80, 152, 232, 128, ...range(80).map(() => (random() < share ? 184 : 192))];
  };

  // Where every other record has the one size or the other, by chance, a log can look like another part of itself.
  test.each([
    [0.02, 0],
    [0.05, 0],
    [0.1, 0],
    [0.3, 1],
    [0.5, 1],
  ])('records of two sizes keep their places where these vary: %p, but for %i of ten logs', (share, lostMax) => {
    const logs = range(10).map((seed) => match([thread(puts(seed, share))], sized(puts(seed + 5000, share))));
    const lost = logs.filter((matched) => eventsOf(matched).some((event, i) => event !== i));
    expect(lost.length).toBeLessThanOrEqual(lostMax);
  });

  describe('of another build', () => {
    const COUNT = 80;
    type Sizes = (random: () => number, at: number) => number;
    const LOGS: Readonly<Record<string, Sizes>> = {
      'that repeats after a while': (_, at) => 200 + ((at * 37) % 300),
      'of lines': (random) => 80 + Math.floor(random() * 60),
      'whose records grow': (_, at) => 232 + 32 * at,
      'of pages': (random) => 4096 * (1 + Math.floor(random() * 3)),
    };
    const RUNS: Readonly<Record<string, Sizes>> = {
      'as they were': (_, size) => size,
      'of which some differ by eight bytes': (random, size) =>
        size + (random() < 0.3 ? 8 * Math.floor(random() * 3 - 1) : 0),
    };
    const NEW = -1;
    /** What is made: a call of the incident, or a new one, and how many calls of the incident may be taken for others. */
    const BUILDS: Readonly<Record<string, [number[], number]>> = {
      'that makes the same calls': [range(COUNT), 0],
      'that leaves out the first': [range(COUNT).slice(1), 5],
      'that leaves out the first three': [range(COUNT).slice(3), 6],
      'that leaves out the first ten': [range(COUNT).slice(10), 8],
      'that leaves out three in the middle': [range(COUNT).toSpliced(30, 3), 5],
      'that makes half of the calls': [range(COUNT / 2), 0],
      'that makes a call more at its start': [[NEW, ...range(COUNT)], 8],
    };

    const all = Object.keys(LOGS).flatMap((log) =>
      Object.keys(RUNS).flatMap((run) => Object.keys(BUILDS).map((build) => [build, log, run] as const)),
    );
    test.each(all)('%s, to a log %s, with sizes %s', (build, log, run) => {
      const [made, othersMax] = BUILDS[build]!;
      for (const seed of range(5)) {
        const random = randomNumbers(seed);
        const sizes = range(COUNT).map((at) => LOGS[log]!(random, at));
        const calls = made.map((event) =>
          RUNS[run]!(random, event === NEW ? LOGS[log]!(random, Math.floor(random() * COUNT)) : sizes[event]!),
        );
        const events = eventsOf(match([thread(sizes)], sized(calls)));
        const others = made.filter((event, i) => event !== NEW && events[i] !== event);
        expect(others.length).toBeLessThanOrEqual(othersMax);
      }
    });
  });

  test('after a full window of passed-over calls the alignment is given up', () => {
    const sizes = [1_000_000, ...range(100).map(() => 10)];
    const matched = match([thread(sizes)], sized([...range(60).map(() => 10), 1_000_000]));
    expect(eventsOf(matched).slice(0, 60)).toEqual(range(60).map((i) => i + 1));
    expect(matched[60]!.how).toBe(MATCH_KINDS.extra);
  });

  test('after its end a thread continues with the distribution', () => {
    expect(howsOf(match([thread([10])], sized([10, 10])))).toEqual([MATCH_KINDS.exact, MATCH_KINDS.distribution]);
  });

  test('an unknown size matches', () => {
    expect(eventsOf(match([thread([10, 20])], [{ size: undefined }, { size: 20 }]))).toEqual([0, 1]);
  });
});

describe('threads', () => {
  test('each has its own slot: that of its name, of its role, then any', () => {
    const plan = ['a-1', 'a-2', 'b'].map((comm, i) => thread([i], { comm }));
    const calls = [
      { comm: 'a-2', tid: 1 },
      { comm: 'a-9', tid: 2 },
      { comm: 'c', tid: 3 },
    ];
    expect(eventsOf(match(plan, calls))).toEqual([1, 0, 2]);
  });

  test('a surplus thread shares in the distribution', () => {
    const matched = match(
      [thread([10, 20])],
      [
        { tid: 1, size: 10 },
        { tid: 2, size: 20 },
        { tid: 1, size: 20 },
      ],
    );
    expect(howsOf(matched)).toEqual([MATCH_KINDS.exact, MATCH_KINDS.distribution, MATCH_KINDS.exact]);
  });

  test('of a file whose events are given back each thread is matched from the start, also one that had no slot', () => {
    const matched = match(
      [thread([10, 20])],
      [
        { tid: 1, size: 10 },
        { tid: 2, size: 20 },
        'moved /data/log',
        { tid: 2, size: 10 },
        { tid: 1, size: 20 },
        { tid: 2, size: 20 },
      ],
    );
    expect(howsOf(matched)).toEqual([
      ...[MATCH_KINDS.exact, MATCH_KINDS.distribution],
      ...[MATCH_KINDS.exact, MATCH_KINDS.distribution, MATCH_KINDS.exact],
    ]);
    expect(eventsOf(matched)).toEqual([0, -1, 0, -1, 1]);
  });

  test('a new thread continues where another ended', () => {
    const matched = match([thread([10, 20])], [{ tid: 1, size: 10 }, 'ended 1 1', { tid: 2, size: 20 }]);
    expect(eventsOf(matched)).toEqual([0, 1]);
  });

  describe('of several roles, whose calls on one file did not overlap', () => {
    const inOrder = (comm: string, targetNs: number): PlannedThread => ({
      ...{ path: '/data/log', comm, isInOrder: true },
      calls: range(20).map(() => ({ size: 10, targetNs })),
    });
    const plan = [inOrder('db', 1), inOrder('worker', 2)];
    const calls = (count: number, comm: string) => range(count).map(() => ({ size: 10, comm }));

    test.each([
      ['db', 1],
      ['worker', 2],
      // No role of the incident.
      ['other', 1],
    ])('more calls than recorded, by %s, take as long as those of its role, or of the first', (comm, target) => {
      const matched = match(plan, [...calls(40, 'db'), ...calls(30, comm)]).slice(40);
      expect(new Set(howsOf(matched))).toEqual(new Set([MATCH_KINDS.distribution]));
      expect(new Set(matched.map((one) => one.target))).toEqual(new Set([target]));
    });

    test.each([
      ['db', 1],
      ['worker', 2],
    ])('in mode dist the calls of %s take as long as those of its role', (comm, target) => {
      const matched = match(plan, calls(30, comm), 'dist');
      expect(new Set(matched.map((one) => one.target))).toEqual(new Set([target]));
    });

    test.each(['align', 'ordinal'] as const)('in mode %s no call takes what a rule gives to other threads', (mode) => {
      const { calls: slow, ...worker } = inOrder('worker', 1_000_000_000);
      const ruled = { ...worker, calls: slow.map((call) => ({ ...call, flags: EVENT_FLAGS.ruled_by_thread })) };
      const matched = match([inOrder('db', 1), ruled], calls(40, 'db'), mode);
      expect(matched.map(({ target }) => target).filter((target) => target > 1)).toEqual([]);
      expect(new Set(eventsOf(match([inOrder('db', 1), ruled], calls(40, 'worker'), mode))).size).toBeGreaterThan(20);
    });

    test('calls without a plan take as long as those of their role', () => {
      const matched = match(plan, [{ file: '/elsewhere', comm: 'worker', size: 10 }], 'align', 1, 'class');
      expect(matched).toEqual([{ how: MATCH_KINDS.class, event: -1, target: 2 }]);
    });
  });

  test('files that differ only in a number are distinct', () => {
    const calls = (from: number) => [0, 1].map((i) => ({ size: from + i, targetNs: 1, offsetNs: (from + i) * 10 }));
    const plan = [
      { path: '/data/seg-2', comm: 'db', tid: 5, calls: calls(3) },
      { path: '/data/seg-1', comm: 'db', tid: 5, calls: calls(1) },
    ];
    const matched = match(plan, [
      { size: 3, file: '/data/seg-2' },
      { size: 1, file: '/data/seg-1' },
      { size: 4, file: '/data/seg-2' },
      { size: 2, file: '/data/seg-1' },
    ]);
    expect(eventsOf(matched)).toEqual([0, 2, 1, 3]);
  });

  test('writes and syncs of a file are distinct', () => {
    const plan = [thread([10]), thread([10], { op: 'fdatasync' })];
    expect(eventsOf(match(plan, [{ isSync: true }, { size: 10 }]))).toEqual([1, 0]);
  });

  test('a file that is not in the plan has no match', () => {
    expect(match([thread([10])], [{ file: '/elsewhere' }])).toEqual([
      { how: MATCH_KINDS.no_stream, event: -1, target: 0 },
    ]);
  });
});

describe('modes', () => {
  test('ordinal uses one after the other', () => {
    const matched = match([thread([10, 20, 30])], sized([30, 20, 10]), 'ordinal');
    expect(eventsOf(matched)).toEqual([0, 1, 2]);
    expect(howsOf(matched)).toEqual([MATCH_KINDS.size, MATCH_KINDS.exact, MATCH_KINDS.size]);
  });

  test('dist draws from calls of a similar size', () => {
    const small = range(20).map(() => ({ size: 10, targetNs: 1 }));
    const large = range(20).map(() => ({ size: 100_000, targetNs: 2 }));
    const plan = [{ path: '/data/log', comm: 'db', calls: [...small, ...large] }];
    const matched = match(plan, sized(range(40).map((i) => (i % 2 ? 10 : 100_000))), 'dist');
    expect(matched.map(({ target }) => target)).toEqual(range(40).map((i) => (i % 2 ? 1 : 2)));
    expect(new Set(howsOf(matched))).toEqual(new Set([MATCH_KINDS.distribution]));
  });

  test('auto gives up a thread that behaves differently, and align does not', () => {
    const plan = [thread(range(200).map(() => 10))];
    const calls = sized(range(100).map(() => 1_000_000));
    expect(howsOf(match(plan, calls, 'align'))).toEqual(Array(100).fill(MATCH_KINDS.extra));
    const hows = howsOf(match(plan, calls, 'auto'));
    expect([hows[0], hows[63], hows[64], hows[99]]).toEqual([
      MATCH_KINDS.extra,
      MATCH_KINDS.extra,
      MATCH_KINDS.distribution,
      MATCH_KINDS.distribution,
    ]);
  });
});

describe('calls without a plan take as long as others of their class', () => {
  const elsewhere = (threads: readonly PlannedThread[], calls: readonly Call[], seed = 1) =>
    match(
      threads,
      calls.map((call) => ({ file: '/elsewhere', ...call })),
      'align',
      seed,
      'class',
    );
  const taking = (targetNs: number, rest: Partial<PlannedThread>, size = 10): PlannedThread => ({
    ...{ path: '/data/log', comm: 'db', calls: range(20).map(() => ({ size, targetNs })) },
    ...rest,
  });
  const ofClass = (target: number) => ({ how: MATCH_KINDS.class, event: -1, target });

  test.each([
    ['syncs as syncs', [taking(1, {}), taking(2, { op: 'fsync' })], { isSync: true }, 2],
    ['by the same role', [taking(1, {}), taking(2, { comm: 'http-1' })], { comm: 'http-7' }, 2],
    ['by any thread, if none has the role', [taking(1, {})], { comm: 'other' }, 1],
    ['of that size', [taking(1, {}), taking(2, { path: '/data/wal' }, 100_000)], { size: 90_000 }, 2],
    ['pipes not as files', [taking(1, {})], { file: 'pipe:[7]' }, 0],
    ['devices not as files', [taking(1, {})], { file: '/dev/tty1' }, 0],
    ['syncs not as writes', [taking(1, {})], { isSync: true }, 0],
  ] as const)('%s', (_, threads, call, target) => {
    const nothing = { how: MATCH_KINDS.no_stream, event: -1, target: 0 };
    expect(elsewhere(threads, [call])).toEqual([target === 0 ? nothing : ofClass(target)]);
  });

  test('and takes nothing from those with a file of their own', () => {
    const plan = [thread([10, 20, 30])];
    const matched = elsewhere(plan, [{ file: '/data/log', size: 10 }, { size: 20 }, { file: '/data/log', size: 20 }]);
    expect(eventsOf(matched)).toEqual([0, -1, 1]);
    expect(howsOf(matched)).toEqual([MATCH_KINDS.exact, MATCH_KINDS.class, MATCH_KINDS.exact]);
  });

  test('all of them are drawn, as the seed determines', () => {
    const plan = [thread(range(20).map(() => 10))];
    const calls = sized(range(400).map(() => 10));
    const targets = (seed: number) => elsewhere(plan, calls, seed).map(({ target }) => target);
    expect(new Set(targets(1))).toEqual(new Set(range(20).map((i) => 1000 + i)));
    expect(targets(1)).toEqual(targets(1));
    expect(targets(1)).not.toEqual(targets(2));
  });
});

describe('the same seed', () => {
  const plan = range(3).map((i) =>
    thread(
      range(50).map((n) => n % 7),
      { comm: `w-${i}` },
    ),
  );
  const callsOf = (i: number) =>
    range(60).map((n) => ({ tid: 10 + i, comm: `w-${i}`, size: n % 7 === 3 ? 1_000_000 : n % 7 }));

  test('gives the same targets, however the threads are scheduled', () => {
    const inTurn = match(
      plan,
      range(180).map((n) => callsOf(n % 3)[Math.floor(n / 3)]!),
    );
    const oneByOne = match(plan, range(3).flatMap(callsOf));
    for (const i of range(3)) {
      const turns = inTurn.filter((_, n) => n % 3 === i);
      expect(turns).toEqual(oneByOne.slice(60 * i, 60 * i + 60));
    }
  });

  test('and another seed gives other targets', () => {
    const calls = range(40).map((tid) => ({ tid: 100 + tid, size: 3 }));
    expect(match(plan, calls, 'dist', 1)).toEqual(match(plan, calls, 'dist', 1));
    expect(match(plan, calls, 'dist', 1)).not.toEqual(match(plan, calls, 'dist', 2));
  });
});

describe('plans', () => {
  interface Checked {
    said: string;
    isRead: boolean;
  }

  /** What one process says of these files, which ends with an error if it reads anything out of bounds. */
  function checkFiles(paths: readonly string[]): Checked[] {
    const { status, stdout, stderr } = spawnSync(driverPath(), ['plan', ...paths], { encoding: 'utf8' });
    expect([status, stderr]).toEqual([0, '']);
    const found = [...stdout.matchAll(/(.*?)^(read|refused)\n/gms)];
    expect(found).toHaveLength(paths.length);
    return found.map(([, said, how], i) => ({
      said: said!.replace(`plan ${paths[i]}: `, ''),
      isRead: how === 'read',
    }));
  }

  function check(plans: readonly Buffer[]): Checked[] {
    const paths = plans.map((bytes, i) => {
      const path = inFolder(`hostile-${i}`);
      writeFileSync(path, bytes);
      return path;
    });
    return checkFiles(paths);
  }

  const plan = planOf([thread([1, 2, 3]), thread([4], { op: 'fsync', comm: 'http-3' })]);

  test('are composed by file and role', () => {
    expect(check([plan])).toEqual([{ said: '/data/log db 3\n/data/log http-# 1\n', isRead: true }]);
  });

  test('are refused with a reason when truncated anywhere', () => {
    const sizes = range(Math.ceil(plan.length / 7)).map((i) => i * 7);
    const wrong = check(sizes.map((size) => plan.subarray(0, size))).filter(
      ({ said, isRead }) => isRead || !/^(not a plan|the plan has \d+ bytes)/.test(said),
    );
    expect(wrong).toEqual([]);
  });

  test('of another version are refused with that reason', () => {
    const other = Buffer.from(plan);
    other[7] = 9;
    const said = 'a plan of version 9, this program reads version 1\n';
    expect(check([other])).toEqual([{ said, isRead: false }]);
  });

  test('with any byte changed are read or refused without further effect', () => {
    const changed = range(plan.length).map((at) => {
      const copy = Buffer.from(plan);
      copy[at]! ^= at % 2 ? 0xff : 0x80;
      return copy;
    });
    const areRead = check(changed).map(({ isRead }) => isRead);
    expect(new Set(areRead)).toEqual(new Set([true, false]));
  });

  test('that are not files are refused', () => {
    const [folder, missing] = checkFiles([inFolder('.'), '/nowhere']);
    expect(folder).toEqual({ said: expect.stringContaining('it is not a regular file'), isRead: false });
    expect(missing).toEqual({ said: expect.stringContaining('No such file or directory'), isRead: false });
  });
});

test.each([1, 2, 3])('the heap yields the earliest first, seed %i', (seed) => {
  expect(drive(['heap', `${seed}`], [])).toEqual(['the first is always the earliest']);
});

test('a percentile of lateness is the value of its rank, or at most a sixteenth more', () => {
  const lateness = fc.oneof(fc.nat(40), fc.nat(100_000), fc.bigInt({ min: 0n, max: 2n ** 40n }).map(Number));
  const lines = fc.sample(fc.array(lateness, { minLength: 1, maxLength: 200 }), { numRuns: times(200), seed: 1 });
  const printed = drive(
    ['lateness'],
    lines.map((line) => line.join(' ')),
  );
  for (const [at, line] of lines.entries()) {
    const sorted = line.toSorted((a, b) => a - b);
    for (const [i, text] of printed[at]!.split(' ').entries()) {
      // The nearest rank: the smallest value that so many of a hundred do not exceed.
      const exact = sorted[Math.ceil((line.length * (i + 1)) / 100) - 1]!;
      expect([line.length, i + 1, Number(text) >= exact, Number(text) <= exact + exact / 16]).toEqual([
        ...[line.length, i + 1],
        ...[true, true],
      ]);
    }
    expect(Number(printed[at]!.split(' ').at(-1))).toBe(sorted.at(-1));
  }
});
