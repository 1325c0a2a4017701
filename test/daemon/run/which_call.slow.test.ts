/**
 * Tests which call of a log's writer waits as a call did in the incident, in builds that make other calls than
 * production did, as the build itself feels it: the wait is at the call that it belongs to, or the verdict is not that
 * the incident was replayed.
 */
import { join } from 'node:path';
import {
  inARow,
  type MadeCall,
  make,
  newFolderInMemory,
  removeFoldersInMemory,
  SLOW,
  synced,
  written,
} from './calls.ts';

const COUNT = 40;
const range = (count: number) => Array.from({ length: count }, (_, at) => at);
const NEW = -1;

let log = '';
afterAll(removeFoldersInMemory);
beforeEach(() => {
  log = join(newFolderInMemory(), 'log');
});

/** What a build makes, by the numbers of the incident's writes. */
const BUILDS: Readonly<Record<string, readonly number[]>> = {
  'makes the same calls': range(COUNT),
  'leaves out the first': range(COUNT).slice(1),
  'leaves out the first three': range(COUNT).slice(3),
  'leaves out the first ten': range(COUNT).slice(10),
  'leaves out some in the middle': range(COUNT).toSpliced(5, 4),
  'makes one more at its start': [NEW, ...range(COUNT)],
  'makes three more at its start': [NEW, NEW, NEW, ...range(COUNT)],
  'makes others in between': range(COUNT).flatMap((at) => (at % 7 === 0 ? [at, NEW] : [at])),
  'makes each twice': range(COUNT).flatMap((at) => [at, at]),
  'makes them in reverse': range(COUNT).toReversed(),
  'makes them in another order': range(COUNT).map((at) => (at * 17) % COUNT),
  'makes pairs in reverse': range(COUNT).map((at) => at ^ 1),
};

const SIZES: Readonly<Record<string, (at: number) => number>> = {
  differ: (at) => 200 + ((at * 37) % 300),
  grow: (at) => 232 + 32 * at,
  'are equal': () => 256,
};

/** The same calls in another order are the same if nothing tells them apart. */
const isOrder = (build: string) => BUILDS[build]!.toSorted((a, b) => a - b).every((number, at) => number === at);
const WAITS: Readonly<Record<string, 'write' | 'fsync'>> = { differ: 'write', grow: 'fsync', 'are equal': 'fsync' };
const all = Object.keys(BUILDS).flatMap((build) =>
  Object.keys(SIZES)
    .filter((sizes) => sizes !== 'are equal' || !isOrder(build) || build === 'makes the same calls')
    .map((sizes) => [build, sizes, WAITS[sizes]!] as const),
);

test.each(all)('a build that %s, where sizes %s, and a %s waited', async (build, sizes, what) => {
  const size = SIZES[sizes]!;
  const isUnchanged = BUILDS[build]!.every((number, at) => number === at) && BUILDS[build]!.length === COUNT;
  const slow = 23;
  const incident = inARow(
    range(COUNT).flatMap((at) => [
      written(log, { requested: BigInt(size(at)), ...(at === slow && what === 'write' && { duration: SLOW }) }),
      synced(log, at === slow && what === 'fsync' ? { duration: SLOW } : {}),
    ]),
  );
  const calls = BUILDS[build]!.flatMap((number, at): MadeCall[] => [
    ['write', log, '', number === NEW ? 700 + 13 * at : size(number)],
    ['fsync', log],
  ]);
  const { felt, result } = await make(incident, calls);
  const waits = felt.flatMap((one, call) => {
    if (one !== 'slow') return [];
    return [[BUILDS[build]![Math.floor(call / 2)], call % 2 === 0 ? 'write' : 'fsync']];
  });
  if (isUnchanged) expect([waits, result.verdict]).toEqual([[[slow, what]], 'replayed']);
  else if (result.verdict === 'replayed') expect(waits).toEqual([[slow, what]]);
});

/** Calls of each build on several files in turn. A number is the number of a call in the incident. */
const TURNS: Readonly<Record<string, readonly number[]>> = {
  'makes the same calls': range(COUNT),
  'leaves out the last': range(COUNT - 1),
  'makes them in reverse': range(COUNT).toReversed(),
  'makes them in another order': range(COUNT).map((at) => (at * 7) % COUNT),
  'begins in the middle': range(COUNT).map((at) => (at + 18) % COUNT),
  'exchanges neighbours': range(COUNT).map((at) => at ^ 1),
};
const onFiles = Object.keys(TURNS).flatMap((build) => ['differ', 'are equal'].map((sizes) => [build, sizes] as const));

test.each(onFiles)('a build that %s on four files in turn, where sizes %s', async (build, sizes) => {
  const folder = newFolderInMemory();
  const fileOf = (at: number) => join(folder, `log-of-${'abcd'[at % 4]}`);
  const size = SIZES[sizes]!;
  const slow = 18;
  const incident = inARow(
    range(COUNT).flatMap((at) => [
      written(fileOf(at), { requested: BigInt(size(at)) }),
      synced(fileOf(at), at === slow ? { duration: SLOW } : {}),
    ]),
  );
  const made = TURNS[build]!;
  const calls = made.flatMap((at): MadeCall[] => [
    ['write', fileOf(at), '', size(at)],
    ['fsync', fileOf(at)],
  ]);
  const { felt, result } = await make(incident, calls);
  const waits = felt.flatMap((one, call) => (one === 'slow' ? [made[Math.floor(call / 2)]] : []));
  if (made.every((at, turn) => at === turn)) expect([waits, result.verdict]).toEqual([[slow], 'replayed']);
  else if (result.verdict === 'replayed') expect(waits).toEqual([slow]);
});
