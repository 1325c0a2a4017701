/** Tests the file that sessions are kept in: data round-trips, and files of another kind are recognized. */
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import fc from 'fast-check';
import { parseJson, stringify } from '../../../../daemon/base/exact_json.ts';
import { STATES } from '../../../../daemon/contract/transitions.ts';
import {
  decodeStoredSession,
  encodeStoredSession,
  type KeptRow,
} from '../../../../daemon/replay/persistence/kept_session.ts';
import { openStateFile, type StateFile } from '../../../../daemon/replay/persistence/state_file.ts';
import { openState } from '../../../../daemon/replay/persistence/state_thread.ts';
import { newSmallDisk } from '../../export/small_disk.ts';
import { newFolder } from '../../recorded.ts';

const count = fc.nat(Number.MAX_SAFE_INTEGER);
const int64 = fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n);
const instant = fc.date({ noInvalidDate: true, min: new Date(0), max: new Date('9999-01-01') });
const latency = fc.array(fc.record({ fromIndex: count, extraLatencyNs: count }), { minLength: 1, maxLength: 5 });

/** zod drops this key from objects that it parses, so the input has none. */
const node = fc.string().filter((name) => name !== '__proto__');

const rowOf = fc.record({
  usedAtMs: count,
  session: fc.record({
    sessionId: fc.uuid(),
    eventIndex: count,
    positionNs: count,
    settings: fc.record({
      transactionId: fc.string({ unit: 'binary', minLength: 1 }),
      speedFactor: fc.double({ min: 0.001, max: 1000, noNaN: true }),
      extraLatencyNs: count,
      timeoutNs: fc.option(fc.bigInt(1n, 2n ** 63n - 1n)),
      maxGapNs: fc.option(count),
      clockOffsetsNs: fc.dictionary(node, fc.maxSafeInteger(), { noNullPrototype: true }),
      clockUncertaintiesNs: fc.option(fc.dictionary(node, count, { noNullPrototype: true }), { nil: undefined }),
      loop: fc.boolean(),
      only: fc.record(
        { eventTypes: fc.array(fc.string()), services: fc.array(fc.string()), nodes: fc.array(node) },
        { requiredKeys: [] },
      ),
    }),
    state: fc.constantFrom(...STATES),
    outline: fc.record({
      eventCount: count,
      firstTimestampNs: int64,
      recordedDurationNs: count,
      latency,
      survey: fc.option(fc.record({ durationNs: count, endNs: count, timeoutEventId: fc.option(fc.string()) })),
      clocks: fc.array(
        fc.record({
          node: fc.string(),
          offsetNs: fc.maxSafeInteger(),
          steppedNs: int64,
          source: fc.constantFrom('override', 'measured', 'none'),
          uncertaintyNs: fc.option(count),
        }),
      ),
    }),
    rounds: count,
    failure: fc.option(fc.string()),
    life: count,
    createdAt: instant.map((date) => date.toISOString()),
    updatedAt: instant.map((date) => date.toISOString()),
  }),
}) satisfies fc.Arbitrary<KeptRow>;

const [SAMPLE] = fc.sample(rowOf.map(encodeStoredSession), { numRuns: 1, seed: 1 });

function placeOf({ session: { sessionId, eventIndex, positionNs }, usedAtMs }: KeptRow) {
  return { sessionId, eventIndex, positionNs, usedAtMs };
}

const opened: StateFile[] = [];
afterEach(() => {
  for (const file of opened.splice(0)) file.close();
});

function open(path: string): StateFile {
  const file = openStateFile(path);
  opened.push(file);
  return file;
}

function close(file: StateFile): void {
  opened.splice(opened.indexOf(file), 1);
  file.close();
}

const newPath = () => join(newFolder(), 'sessions.sqlite');
const refusal = (path: string) => {
  try {
    open(path);
  } catch (error) {
    return { name: (error as Error).name, message: (error as Error).message };
  }
  return undefined;
};
const refused = (pattern: RegExp) => ({ name: 'StateFileError', message: expect.stringMatching(pattern) });

test('written entries are read back, the oldest first, and removed ones are not', () => {
  const rows = fc.uniqueArray(rowOf, { selector: ({ session }) => session.sessionId, minLength: 2, maxLength: 6 });
  fc.assert(
    fc.property(rows, fc.array(count, { minLength: 6, maxLength: 6 }), (given, places) => {
      const path = newPath();
      const first = open(path);
      first.write({ sessions: given.map(encodeStoredSession), places: [], removed: [] });
      const moved = given.map(({ session, usedAtMs }, at) => {
        const place = { eventIndex: places[at]!, positionNs: places.at(-1 - at)! };
        return { session: { ...session, ...place }, usedAtMs };
      });
      const [gone, ...left] = moved;
      first.write({ sessions: [], places: moved.map(placeOf), removed: [gone!.session.sessionId] });
      close(first);
      const again = open(path);
      expect(again.rows.map(decodeStoredSession)).toEqual(left);
      close(again);
    }),
    { numRuns: 40 },
  );
});

test('a row of a version that knew no selection has its latency for all events', () => {
  const { only: _, ...settings } = (parseJson(SAMPLE!.facts) as { settings: Record<string, unknown> }).settings;
  const facts = stringify({ ...(parseJson(SAMPLE!.facts) as object), settings });
  expect(decodeStoredSession({ ...SAMPLE!, facts }).session.settings.only).toEqual({});
});

test('a row of a version that knew no measured offsets has none', () => {
  const { outline, settings, ...facts } = parseJson(SAMPLE!.facts) as Record<'outline' | 'settings', object>;
  const clocks = [{ node: 'a', offsetNs: 5, steppedNs: 0n, source: 'override' }];
  const older = {
    ...facts,
    outline: { ...outline, clocks },
    settings: { ...settings, clockUncertaintiesNs: undefined },
  };
  const { session } = decodeStoredSession({ ...SAMPLE!, facts: stringify(older) });
  expect(session.outline.clocks).toEqual([{ ...clocks[0], uncertaintyNs: null }]);
  expect(session.settings.clockUncertaintiesNs).toBeUndefined();
});

test('only the owner can read the file and its log', () => {
  const path = newPath();
  open(path).write({ sessions: [SAMPLE!], places: [], removed: [] });
  expect([path, `${path}-wal`].map((file) => statSync(file).mode & 0o777)).toEqual([0o600, 0o600]);
});

test('a second process is refused with a solution', () => {
  const path = newPath();
  // Locks belong to a process here, but a second connection in the same one behaves like another process.
  open(path);
  expect(refusal(path)).toEqual(refused(/^another daemon keeps its sessions in .*: stop it, .*--state/));
});

test('another file in its place is left unchanged', () => {
  const text = newPath();
  writeFileSync(text, 'precious '.repeat(1000));
  const before = readFileSync(text);
  expect(refusal(text)).toEqual(refused(/not a file of kreplay: give another with --state/));
  expect(readFileSync(text)).toEqual(before);

  const other = newPath();
  const database = new Database(other);
  database.exec('CREATE TABLE mine (x)');
  database.close();
  expect(refusal(other)).toEqual(refused(/something else/));

  const folder = newPath();
  mkdirSync(folder);
  expect(refusal(folder)).toEqual(refused(/cannot be used.*--state/));
  expect(refusal(join(newFolder(), 'missing', 'file'))).toEqual(refused(/cannot be used.*check its folder/));
});

test('a file of a newer kreplay is not changed', () => {
  const path = newPath();
  close(open(path));
  const database = new Database(path);
  database.pragma('user_version = 2');
  database.close();
  expect(refusal(path)).toEqual(refused(/written by a newer kreplay/));
});

test('damage is reported: changed bytes, and a row of unknown origin', async () => {
  const path = newPath();
  const file = open(path);
  const sessions = Array.from({ length: 50 }, (_, at) => {
    return { ...SAMPLE!, sessionId: `${at}` };
  });
  file.write({ sessions, places: [], removed: [] });
  close(file);
  const whole = readFileSync(path);
  for (let page = 1; page < whole.length / 4096; page++) {
    writeFileSync(path, Buffer.from(whole).fill(0xa5, page * 4096, (page + 1) * 4096));
    expect(refusal(path)).toEqual(refused(/is damaged .*: move it away and start again/));
  }
  writeFileSync(path, whole);
  const database = new Database(path);
  database.exec(`UPDATE session SET facts = '{"state":"playing"}' WHERE session_id = '7'`);
  database.close();
  await expect(openState(path)).rejects.toMatchObject(refused(/is damaged \(session 7 cannot be read\)/));
});

const asRoot = process.getuid?.() === 0 ? test : test.skip;

asRoot(
  'on a full disk nothing of a batch is written, earlier entries are kept, and writing resumes once there is space',
  () => {
    const disk = newSmallDisk(400);
    const path = join(disk, 'sessions.sqlite');
    const file = open(path);
    file.write({ sessions: [SAMPLE!], places: [], removed: [] });
    const filling = join(disk, 'filling');
    expect(() => writeFileSync(filling, Buffer.alloc(1 << 20))).toThrow('ENOSPC');
    const sessions = Array.from({ length: 300 }, (_, at) => {
      return { ...SAMPLE!, sessionId: `${at}` };
    });
    expect(() => file.write({ sessions, places: [], removed: [] })).toThrow(/full/);
    rmSync(filling);
    const [one] = sessions;
    file.write({ sessions: [one!], places: [], removed: [] });
    close(file);
    expect(open(path).rows).toEqual([SAMPLE, one]);
  },
);

asRoot('a full disk at the start is reported', () => {
  const disk = newSmallDisk(64);
  expect(() => writeFileSync(join(disk, 'filling'), Buffer.alloc(1 << 20))).toThrow('ENOSPC');
  expect(refusal(join(disk, 'sessions.sqlite'))).toEqual(refused(/no space is left/));
});
