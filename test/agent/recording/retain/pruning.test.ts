/** Which names remain when retention removes those that no event refers to. */
import Database from 'better-sqlite3';
import fc from 'fast-check';
import { IDS_IN_USE_MAX } from '../../../../agent/recording/format/ids.ts';
import { CREATE_TABLES } from '../../../../agent/recording/format/schema.ts';
import { openPruning } from '../../../../agent/recording/retain/pruning.ts';
import { times } from '../../../repeats.ts';

const NAMES = 70_000;

/** Ranges in ascending order, without overlaps. */
const pinnedRanges = fc
  .uniqueArray(fc.integer({ min: 1, max: NAMES }), { maxLength: 8 })
  .map((ends) => ends.sort((a, b) => a - b))
  .map((ends) => ends.flatMap((from, i) => (i % 2 === 0 && i + 1 < ends.length ? [{ from, end: ends[i + 1]! }] : [])));

test('names that pinned events may refer to remain, in however many calls the others are removed', () => {
  fc.assert(
    fc.property(pinnedRanges, fc.integer({ min: 0, max: NAMES }), (names, keptFrom) => {
      const database = new Database(':memory:');
      database.exec(CREATE_TABLES);
      database.exec(`
        WITH RECURSIVE ids(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM ids WHERE id < ${NAMES})
        INSERT INTO name SELECT id, 'name ' || id FROM ids`);
      const pruning = openPruning(database);
      const oldest = { number: 0n, minNs: 0n, ids: { name: keptFrom + IDS_IN_USE_MAX, file: 1, context: 1 } };
      const pinned = { segments: new Set<number>(), transactionKeys: new Set<number>(), names, files: [] };
      for (let call = 0; call < 5; call++) pruning.prune(oldest, pinned);
      const left = database.prepare<[], number>('SELECT name_id FROM name ORDER BY name_id').pluck().all();
      database.close();
      const isKept = (id: number) => id >= keptFrom || names.some(({ from, end }) => id >= from && id < end);
      const expected = Array.from({ length: NAMES }, (_, i) => i + 1).filter(isKept);
      expect(left.length).toBe(expected.length);
      expect(left.join() === expected.join()).toBe(true);
    }),
    // A call ends within a range that is pinned.
    { numRuns: times(10), examples: [[[{ from: 15_000, end: 25_000 }], 50_000]] },
  );
});
