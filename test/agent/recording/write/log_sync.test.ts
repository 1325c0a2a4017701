/** Tests when a log is synced: a disk that takes its time is asked once at a time, and one that fails is not believed. */
import { setImmediate } from 'node:timers/promises';
import { RecordingError } from '../../../../agent/recording/format/errors.ts';
import { type LogSync, logSync } from '../../../../agent/recording/write/log_sync.ts';

const FAILURE = new RecordingError('recording_io_error', 'the disk fails');

/** Syncs that the disk was asked for and has not made yet. */
let asked: ((failure?: RecordingError) => void)[];
let askedCount: number;
/** Results of the next copies of the log. */
let copies: (boolean | RecordingError)[];
let reported: (string | undefined)[];
let nowMs: number;
let due: { atMs: number; work: () => void } | undefined;
let sync: LogSync;

beforeEach(() => {
  [asked, askedCount, copies, reported] = [[], 0, [], []];
  [nowMs, due] = [0, undefined];
  sync = logSync({
    log: {
      beginSync(done) {
        askedCount++;
        asked.push(done);
      },
    },
    checkpoint() {
      const copy = copies.shift()!;
      if (copy instanceof RecordingError) throw copy;
      return copy;
    },
    timer: {
      nowMs: () => nowMs,
      schedule(ms, work) {
        due = { atMs: nowMs + ms, work };
        return () => (due = undefined);
      },
    },
    onSynced: (failure) => reported.push(failure?.code),
  });
});

function pass(ms: number): void {
  const untilMs = nowMs + ms;
  while (due && due.atMs <= untilMs) {
    const { atMs, work } = due;
    due = undefined;
    nowMs = atMs;
    work();
  }
  nowMs = untilMs;
}
const answer = (failure?: RecordingError) => asked.shift()!(failure);

test('the first commit is synced at once, and those that follow within a second together', () => {
  sync.noteCommit();
  pass(0);
  expect(askedCount).toBe(1);
  answer();
  expect(sync.unsyncedSinceNs()).toBeUndefined();
  for (let i = 0; i < 9; i++) {
    pass(100);
    sync.noteCommit();
  }
  expect(askedCount).toBe(1);
  pass(100);
  expect(askedCount).toBe(2);
  expect(sync.unsyncedSinceNs()).toBeDefined();
  answer();
  pass(60_000);
  expect([askedCount, sync.unsyncedSinceNs()]).toEqual([2, undefined]);
});

test('while a disk takes long for a sync, it is not asked for another, and what waits grows old', () => {
  sync.noteCommit();
  const sinceNs = sync.unsyncedSinceNs()!;
  for (let i = 0; i < 100; i++) {
    pass(100);
    sync.noteCommit();
  }
  expect([askedCount, sync.unsyncedSinceNs()]).toEqual([1, sinceNs]);
  answer();
  // The sync does not cover commits that were made during it: the next sync begins at once.
  expect(sync.unsyncedSinceNs()! > sinceNs).toBe(true);
  pass(0);
  expect(askedCount).toBe(2);
});

test('after a sync that failed, the log counts as synced only once all of it is in the file', () => {
  sync.noteCommit();
  const sinceNs = sync.unsyncedSinceNs();
  pass(0);
  answer(FAILURE);
  expect([reported, sync.unsyncedSinceNs()]).toEqual([['recording_io_error'], sinceNs]);
  copies = [new RecordingError('recording_full', 'no room'), false, true];
  pass(1000);
  pass(1000);
  expect(sync.unsyncedSinceNs()).toBe(sinceNs);
  pass(1000);
  expect(sync.unsyncedSinceNs()).toBeUndefined();
  expect(reported).toEqual(['recording_io_error', 'recording_full', 'recording_full', undefined]);
  sync.noteCommit();
  pass(1000);
  expect(askedCount).toBe(2);
});

test('an end waits for the sync that is under way, and for no other', async () => {
  sync.noteCommit();
  pass(0);
  sync.noteCommit();
  let hasEnded = false;
  void sync.end().then(() => (hasEnded = true));
  await setImmediate();
  expect(hasEnded).toBe(false);
  answer();
  await setImmediate();
  pass(60_000);
  expect([hasEnded, askedCount]).toEqual([true, 1]);
});
