/** Tests that each event is examined or counted as missed, whatever retention removes while events are examined. */
import Database from 'better-sqlite3';
import type { RetentionLimits } from '../../../agent/recording/retain/retention.ts';
import { openWriter, type RecordingWriter } from '../../../agent/recording/write/writer.ts';
import { openRecordingStore } from '../../../daemon/store/embedded/recording_store.ts';
import type { Extent, Recordings } from '../../../daemon/store/embedded/recordings.ts';
import { createExaminer, NUMBERS_A_CHUNK } from '../../../daemon/watch/examine.ts';
import type { Rule } from '../../../daemon/watch/rules.ts';
import { appendRows, newFolder, recordingPath, START } from '../recorded.ts';

const S = 1_000_000_000n;
const EVENTS = 16_000;
const FAILED: Rule = { name: 'failed', failed: true, coolDownNs: 0n };
const LONG: Rule = { name: 'long', minDurationNs: 0n, coolDownNs: 0n };
const BOTH: Rule = { name: 'both', minDurationNs: 0n, failed: true, coolDownNs: 0n };

const opened: { close(): void }[] = [];
afterEach(() => {
  for (const one of opened.splice(0)) one.close();
});

interface Recorded {
  writer: RecordingWriter;
  recordings: Recordings;
  recordingId: string;
  end: number;
  clock: { nowNs: bigint };
}

/** Records failed events, a second apart, of which each is a transaction. */
function record(retention: RetentionLimits, folder = newFolder()): Recorded {
  const clock = { nowNs: START };
  const origin = { node: 'n', bootId: 'b', machineId: 'm', nowNs: () => clock.nowNs };
  const writer = openWriter({ path: recordingPath(folder), ...origin, retention });
  appendRows(
    writer,
    Array.from({ length: EVENTS }, (_, i) => ({ at: START + BigInt(i) * S, transaction: `tx-${i}`, result: -5n })),
  );
  const recordings = openRecordingStore(folder);
  opened.push(recordings, writer);
  const [{ recordingId, end }] = recordings.extents() as [Extent];
  return { writer, recordings, recordingId, end, clock };
}

test.each([
  ['an event', [FAILED], 1],
  ['transactions', [LONG], 3],
  ['transactions with an event', [BOTH], 3],
  ['both kinds', [FAILED, LONG], 3],
])('rules about %s: what retention removes meanwhile is counted', (_, rules, stepsBetween) => {
  const { writer, recordings, recordingId, end, clock } = record({ ageNs: 1000n * S });
  const found = new Map(rules.map(({ name }) => [name, new Set<string>()]));
  const examiner = createExaminer({ recordings, rules, isKnown: () => false });
  const steps = examiner.examine({ recordingId, from: 0, end }, ({ name }, one) =>
    found.get(name)!.add(one.transactionId),
  );
  let [step, passed] = [steps.next(), 0];
  for (; !step.done; step = steps.next()) {
    // Retention goes on in the middle of a pass, and far enough to remove what is examined just then.
    if (++passed % stepsBetween === 0 && clock.nowNs < START + BigInt(EVENTS) * S) {
      clock.nowNs += 6000n * S;
      appendRows(writer, [{ at: START + BigInt(EVENTS) * S }]);
    }
  }
  const removed = recordings.countRemoved(recordingId, 0, end).count;
  const least = Math.min(...[...found.values()].map(({ size }) => size));
  expect(removed).toBeGreaterThan(0);
  expect([step.value > 0, least + (step.value as number)]).toEqual([true, EVENTS]);
});

test('numbers that a loss of power has skipped are not missed', () => {
  const folder = newFolder();
  record({ bytes: 1 << 30 }, folder);
  for (const one of opened.splice(0)) one.close();
  const database = new Database(recordingPath(folder));
  // As the writer does when it finds that its log was torn.
  database.exec("INSERT INTO meta VALUES ('next_number', 4294967296) ON CONFLICT DO UPDATE SET value = excluded.value");
  database.close();
  const { recordings, recordingId, end } = record({ bytes: 1 << 30 }, folder);
  expect(end).toBe(2 ** 32 + EVENTS);
  const examiner = createExaminer({ recordings, rules: [FAILED], isKnown: () => false });
  const seen = new Set<string>();
  for (const [from, to] of [
    [0, NUMBERS_A_CHUNK],
    [NUMBERS_A_CHUNK, end],
  ] as const) {
    const steps = examiner.examine({ recordingId, from, end: to }, (_, one) => seen.add(one.transactionId));
    let step = steps.next();
    while (!step.done) step = steps.next();
    expect(step.value).toBe(0);
  }
  expect(seen.size).toBe(EVENTS);
  expect(recordings.countRemoved(recordingId, 0, NUMBERS_A_CHUNK).count).toBe(0);
});
