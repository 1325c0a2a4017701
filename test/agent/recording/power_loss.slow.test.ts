/**
 * Tests what a loss of power may take: the writes and syncs of a real writer are traced, and images of its folder are
 * made as a disk could hold them at any instant. What a sync of the log had covered is there, the rest is there or told,
 * and nothing is wrong or new.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RecordingError } from '../../../agent/recording/format/errors.ts';
import type { Loss } from '../../../agent/recording/format/losses.ts';
import { openReader, type RecordingReader } from '../../../agent/recording/read/reader.ts';
import { isWhole, verifyRecording } from '../../../agent/recording/read/verify.ts';
import { setAside } from '../../../agent/recording/write/set_aside.ts';
import { openWriter } from '../../../agent/recording/write/writer.ts';
import { times } from '../../repeats.ts';
import { blockOf, temporaryFolder } from './fixture.ts';
import { type Call, traced, WAYS, writeImage } from './power/disk.ts';
import { FLUSH_NS, FLUSH_ROWS, rowOf, START_NS, startOf } from './power/events.ts';

const IMAGES = times(40);
/** Ends of a writer, and images of each call around an end. */
const ENDS = times(3);
const DRAWS = 4;
const CALLS_AROUND = 9;
const FLUSHES = 150;
/** Less than what is written, so that retention removes segments. */
const LIMIT_BYTES = 200_000;
const RESTART_NS = START_NS + 100_000n * FLUSH_NS;
const CHECKED = ['timestamp_ns', 'duration_ns', 'pid', 'sys_write.bytes_requested'] as const;

const folder = temporaryFolder();
afterAll(() => folder.remove());

/** What a writer did until it was killed. */
async function trace(name: string, ...options: string[]): Promise<Call[]> {
  const own = join(folder.path, name);
  mkdirSync(own);
  const writer = traced(
    [join(import.meta.dirname, 'power/writer.ts'), join(own, 'recording.kreplay'), ...options],
    own,
  );
  await writer.until((line) => Number(/\d+/.exec(line)) >= FLUSHES * FLUSH_ROWS);
  return writer.kill();
}

/** Numbers below 1 that follow from the seed: xorshift32. */
function numbersFrom(seed: number): () => number {
  let state = Math.imul(seed + 1, 0x9e3779b1) | 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
}

/** The number before which all events were committed, and that before which a sync of the log covered them. */
function endsIn(calls: readonly Call[]): { committed: number; synced: number } {
  const log = calls.find((call) => call.kind === 'link' && call.name.endsWith('-wal')) as { file: number } | undefined;
  const said = [0];
  let synced = 0;
  for (const call of calls) {
    said.push(call.kind === 'said' ? Number(/\d+/.exec(call.text)) : said.at(-1)!);
    if (call.kind === 'sync' && call.file === log?.file) synced = Math.max(synced, said[call.begun]!);
  }
  return { committed: said.at(-1)!, synced };
}

interface Found {
  numbers: Set<number>;
  losses: Loss[];
  /** When the writer was at work last. */
  untilNs: bigint;
}

/** All that a reader finds; each event must be what was written under its number. */
function read(reader: RecordingReader): Found {
  const numbers: number[] = [];
  const wrong: unknown[] = [];
  for (const block of reader.scan({ columns: CHECKED }))
    for (let row = 0; row < block.rowCount; row++) {
      const number = Number(block.numbers[row]);
      const written = number === newNumber ? { ...rowOf(0), timestamp_ns: RESTART_NS } : rowOf(number);
      const values = CHECKED.map((name) => BigInt(block.columns.get(name)![row]!));
      if (CHECKED.some((name, i) => values[i] !== BigInt(written[name]!))) wrong.push([number, values]);
      numbers.push(number);
    }
  const found = new Set(numbers);
  expect([wrong, found.size]).toEqual([[], numbers.length]);
  return { numbers: found, losses: reader.losses(), untilNs: reader.recordedSpan()!.toNs };
}

const below = (end: number) => Array.from({ length: end }, (_, number) => number);

/** Number of the event that the writer behind a loss of power writes: the next multiple of 2^32. */
const newNumber = 2 ** 32;

/** Goes on with the recording as the agent of the node's next start does, with one event. */
function goOn(path: string): void {
  const options = { node: 'node-1', machineId: 'machine', bootId: 'boot-2', nowNs: () => RESTART_NS };
  const writer = openWriter({ path, ...options });
  writer.append(blockOf([{ ...rowOf(0), timestamp_ns: RESTART_NS }]));
  writer.close();
}

/** Returns false if the recording is one that no agent continues. */
function goesOn(path: string): boolean {
  try {
    goOn(path);
    return true;
  } catch (error) {
    expect((error as RecordingError).code).toBe('recording_corrupt');
    return false;
  }
}

/** Undefined for a file that holds nothing yet, or whose tables were not whole on the disk: nothing was synced then. */
function open(path: string): RecordingReader | undefined {
  try {
    return openReader(path);
  } catch (error) {
    expect(['recording_missing', 'recording_corrupt']).toContain((error as RecordingError).code);
    return undefined;
  }
}

const begin = (calls: readonly Call[]) => calls.filter((call) => call.kind === 'sync' && call.isData).length;

test.each<[string, string[]]>([
  ['keeps everything', []],
  ['removes what is old', [String(LIMIT_BYTES)]],
])(
  'a loss of power under a writer that %s',
  async (name, options) => {
    const calls = await trace(name.replaceAll(' ', '_'), ...options);
    // It worked for two seconds, with a sync at once and another each second.
    expect(begin(calls)).toBeGreaterThanOrEqual(2);
    const seen = { whole: 0, cut: 0, empty: 0, setAside: 0 };
    // A fast disk has few unsynced writes: more images are drawn until the log of some image is cut.
    const isEnough = (i: number) => i >= IMAGES / 2 && Math.min(seen.whole, seen.cut) > 0;
    for (let i = 0; !isEnough(i) && i < 10 * IMAGES; i++) {
      const random = numbersFrom(i);
      const way = WAYS[i % WAYS.length]!;
      const before = calls.slice(0, Math.floor(random() * calls.length));
      const { committed, synced } = endsIn(before);
      const path = join(folder.path, `${name} ${i}`, 'recording.kreplay');
      mkdirSync(join(path, '..'));
      writeImage(join(path, '..'), before, way, random);
      const expectGood = ({ numbers, losses, untilNs }: Found) => {
        const gone = below(committed).filter((number) => !numbers.has(number));
        const isTold = (number: number) =>
          losses.some(({ fromNs, toNs }) => fromNs <= startOf(number) && startOf(number) <= toNs);
        const silent = gone.filter((number) => startOf(number) < untilNs && !isTold(number));
        const removed = losses.find(({ cause }) => cause === 'retention')?.count ?? 0;
        const lost = gone.filter((number) => number >= removed && number < synced);
        expect({ i, way, committed, synced, silent, lost }).toEqual({
          i,
          way,
          committed,
          synced,
          silent: [],
          lost: [],
        });
      };

      // A daemon may be asked before an agent starts, and goes on beside it.
      const reader = open(path);
      const found = reader && read(reader);
      if (found) expectGood(found);
      else expect({ i, way, synced }).toEqual({ i, way, synced: 0 });
      const wasCut = reader?.foundDamage().any === true;
      if (goesOn(path)) {
        seen[wasCut ? 'cut' : found ? 'whole' : 'empty']++;
        const next = reader ?? openReader(path);
        if (found) expectGood(read(next));
        expect([next.foundDamage().any, isWhole(verifyRecording(path))]).toEqual([false, true]);
        if (found) expect(next.event(BigInt(newNumber))).toBeDefined();
        // A tail that goes on from before counts none of the numbers between as removed.
        if (found) expect(next.countRemoved(0, newNumber + 1).count).toBe(0);
        next.close();
      } else {
        seen.setAside++;
        reader?.close();
        const aside = found && openReader(setAside(path, Date.now()).place, { isDamaged: true });
        if (aside) expectGood(read(aside));
        aside?.close();
      }
    }
    expect(Math.min(seen.whole, seen.cut)).toBeGreaterThan(0);
  },
  120_000,
);

/** Indexes behind which power is lost while the log is removed at a writer's end, or begins at its start. */
function changesOfJournal(calls: readonly Call[]): number[] {
  const removed = calls.flatMap(({ kind, ...call }, i) =>
    kind === 'unlink' && (call as { name: string }).name.endsWith('-wal') ? [i] : [],
  );
  return removed.slice(0, ENDS).flatMap((at) => Array.from({ length: CALLS_AROUND }, (_, i) => at - 2 + i));
}

test('a loss of power while a writer ends in order, or begins again', async () => {
  const calls = await trace('again', 'again');
  const ends = changesOfJournal(calls);
  expect(ends.length).toBeGreaterThanOrEqual(3 * CALLS_AROUND);
  for (const [i, end] of ends.entries())
    for (let draw = 0; draw < DRAWS; draw++) {
      const before = calls.slice(0, end);
      const way = draw % 2 === 0 ? 'torn' : WAYS[(i + draw) % WAYS.length]!;
      const { synced } = endsIn(before);
      const path = join(folder.path, `again ${i} ${draw}`, 'recording.kreplay');
      mkdirSync(join(path, '..'));
      writeImage(join(path, '..'), before, way, numbersFrom(i * DRAWS + draw));
      const reader = openReader(path);
      const found = read(reader).numbers;
      const lost = below(synced).filter((number) => !found.has(number));
      const isRead = { damage: reader.foundDamage().any, lost };
      const asLeft = verifyRecording(path);
      goOn(path);
      const then = verifyRecording(path);
      expect({ end, way, isRead, whole: [isWhole(asLeft), isWhole(then)], events: then.events }).toEqual({
        end,
        way,
        isRead: { damage: false, lost: [] },
        whole: [true, true],
        events: found.size + 1,
      });
      reader.close();
    }
}, 60_000);

test('a first page with the header of another release of SQLite and the checksum of this one is read', () => {
  const path = join(folder.path, 'upgraded.kreplay');
  goOn(path);
  const patch = (at: number, bytes: number[]) => {
    const file = readFileSync(path);
    Buffer.from(bytes).copy(file, at);
    writeFileSync(path, file);
  };
  patch(96, [0, 0x2e, 0x8a, 0x13]);
  expect(isWhole(verifyRecording(path))).toBe(true);
  patch(110, [0xff, 0xff]);
  expect(() => verifyRecording(path)).toThrow(expect.objectContaining({ code: 'recording_corrupt' }));
});
