/**
 * Tests that contexts are found by text at any moment while their hashes are written, merged and removed, and that few
 * groups of hashes are left. The table of contexts itself, read without any index, is the witness.
 */
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { setImmediate as later } from 'node:timers/promises';
import type Database from 'better-sqlite3';
import fc from 'fast-check';
import { createContextFinder } from '../../../../agent/recording/format/context_finder.ts';
import { BATCH_SIZE, LEVELS } from '../../../../agent/recording/format/context_hash.ts';
import { openPruning } from '../../../../agent/recording/retain/pruning.ts';
import { openForWriting } from '../../../../agent/recording/write/create.ts';
import { openContextHashes } from '../../../../agent/recording/write/stored_dictionaries.ts';
import { times } from '../../../repeats.ts';
import { START_NS, temporaryFolder } from '../fixture.ts';

const [, SECOND, THIRD] = LEVELS;
const folder = temporaryFolder();
const path = join(folder.path, 'recording.kreplay');
let database: Database.Database;

beforeEach(() => {
  for (const file of ['', '-wal', '-shm']) rmSync(path + file, { force: true });
  database = openForWriting(path, { node: 'n', bootId: 'b', machineId: 'm', createdNs: START_NS });
});

afterEach(() => database.close());
afterAll(() => folder.remove());

/** Adds every `spacing`th context: retention leaves such gaps, and a small table is fast. */
function addContexts(from: number, end: number, spacing: number): void {
  database
    .prepare(
      `WITH RECURSIVE ids (id) AS (SELECT :from UNION ALL SELECT id + :spacing FROM ids WHERE id + :spacing < :end)
       INSERT INTO context
       SELECT id, id, 'order-' || (id / 3), CASE WHEN id % 5 = 0 THEN 'trace-' || (id % 50) END, NULL FROM ids`,
    )
    .run({ from: BigInt(from), end: BigInt(end), spacing: BigInt(spacing) });
}

function textsOf(ids: readonly number[]): { transactions: string[]; traces: string[] } {
  const transactions = [...ids.map((id) => `order-${Math.floor(id / 3)}`), 'order-none', ''];
  return { transactions, traces: [0, 5, 10, 49].map((number) => `trace-${number}`) };
}

/** Returns what is found in a way that is not that of the table of contexts. */
function differences(ids: readonly number[]): unknown[] {
  const finder = createContextFinder(database);
  const scan = (column: string, text: string) =>
    database.prepare<[string], number>(`SELECT context_id FROM context WHERE ${column} = ?`).pluck().all(text);
  const { transactions, traces } = textsOf(ids);
  const found = [
    ...transactions.map((text) => [text, finder.findByTransaction(text), scan('transaction_id', text)] as const),
    ...traces.map((text) => [text, finder.findByTrace(text), scan('trace_id', text)] as const),
  ];
  return found
    .map(([text, contexts, right]) => [text, contexts.map(({ context_id }) => context_id).sort((a, b) => a - b), right])
    .filter(([, contexts, right]) => JSON.stringify(contexts) !== JSON.stringify(right));
}

const keys = () =>
  LEVELS.map(({ table }) => database.prepare<[], number>(`SELECT count(*) FROM ${table}`).pluck().get()!);

function groups(): number {
  const counts = LEVELS.map(({ table, groupShift }) => `(SELECT count(DISTINCT key >> ${groupShift}) FROM ${table})`);
  return database
    .prepare<[], number>(`SELECT ${counts.join(' + ')}`)
    .pluck()
    .get()!;
}

/** Calls what each flush calls until it does no more, and `look` now and then. */
async function mergeAll(last: number, look: (step: number) => void = () => undefined): Promise<void> {
  const hashes = openContextHashes(database);
  const changes = () => database.prepare<[], number>('SELECT total_changes()').pluck().get()!;
  for (let step = 0; ; step++) {
    const before = changes();
    database.transaction(() => hashes.write(last))();
    if (changes() === before) return;
    look(step);
    if (step % 100 === 0) await later();
  }
}

test('contexts are found at each step of the merges, and few groups are left', async () => {
  const last = THIRD.size + 3 * SECOND.size + 5 * BATCH_SIZE + 100;
  addContexts(1, last, 97);
  const looked = [1, 98, 97 * 1000 + 1, 97 * 20_000 + 1, last - (last % 97) - 96];
  await mergeAll(last, (step) => {
    if (step % 250 === 0) expect(differences(looked)).toEqual([]);
  });
  expect(differences(looked)).toEqual([]);
  expect(groups()).toBe(1 + 3 + 5);
  expect(keys().every((count) => count > 0)).toBe(true);
  const hashed = database.prepare<[], number>(`
    SELECT sum((transaction_id IS NOT NULL) + (trace_id IS NOT NULL)) FROM context
    WHERE context_id <= (SELECT value FROM meta WHERE key = 'hashed_contexts')`);
  expect(keys().reduce((sum, count) => sum + count)).toBe(hashed.pluck().get()!);
}, 120_000);

test('contexts are found whatever the writer did when it was killed, and after their hashes were removed', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(
        fc.record({
          contexts: fc.integer({ min: 0, max: 2 * SECOND.size }),
          spacing: fc.integer({ min: 50, max: 3000 }),
          steps: fc.integer({ min: 0, max: 400 }),
          isUndone: fc.boolean(),
          removed: fc.double({ min: 0, max: 1, noNaN: true }),
        }),
        { minLength: 1, maxLength: 4 },
      ),
      async (turns) => {
        database.exec(`${LEVELS.map(({ table }) => `DELETE FROM ${table};`).join('')} DELETE FROM context;
          DELETE FROM meta WHERE key LIKE 'merge%' OR key = 'hashed_contexts'`);
        let next = 1;
        for (const { contexts, spacing, steps, isUndone, removed } of turns) {
          if (contexts > 0) addContexts(next, next + contexts, spacing);
          next += contexts;
          // Each turn is a new writer.
          const hashes = openContextHashes(database);
          for (let step = 0; step < steps; step++) database.transaction(() => hashes.write(next - 1))();
          if (isUndone) {
            database.exec('BEGIN');
            for (let step = 0; step < 5; step++) hashes.write(next - 1);
            database.exec('ROLLBACK');
          }
          const oldest = Math.floor(next * removed);
          database.prepare('DELETE FROM context WHERE context_id < ?').run(BigInt(oldest));
          const pruning = openPruning(database);
          const kept = { number: 0n, minNs: 0n, ids: { name: 1, file: 1, context: oldest + 32_768 } };
          const pinned = { names: [], files: [], transactionKeys: new Set<number>() };
          for (let call = 0; call <= next / 20_000; call++) pruning.prune(kept, pinned as never);
          expect(differences([1, oldest, oldest + 1, next - 1, Math.floor(next / 2)])).toEqual([]);
          await later();
        }
      },
    ),
    { numRuns: times(8) },
  );
}, 300_000);

test('hashes of removed contexts are removed from every level', async () => {
  const last = THIRD.size + SECOND.size + BATCH_SIZE;
  addContexts(1, last + 1, 500);
  await mergeAll(last);
  const kept = [...Array(4)].map((_, i) => 1 + 500 * i);
  database.exec(`
    DELETE FROM context WHERE context_id NOT IN (${kept.join()});
    INSERT INTO segment VALUES (7, 1, 1, 0, 0, 0, 0, NULL, 0, 0, 0, 0, 0, 0, x'', NULL, x'');
    INSERT INTO segment_context SELECT context_id, 7 FROM context`);
  const before = keys();
  expect(before.every((count) => count > 0)).toBe(true);
  const pruning = openPruning(database);
  const end = { number: 0n, minNs: 0n, ids: { name: 1, file: 1, context: last + BATCH_SIZE + 32_768 } };
  const pinned = { names: [], files: [], transactionKeys: new Set<number>() };
  for (let call = 0; call <= last / 20_000 + 2; call++) pruning.prune(end, pinned as never);
  expect(keys()).toEqual([0, 0, kept.length]);
  expect(differences(kept)).toEqual([]);
});
