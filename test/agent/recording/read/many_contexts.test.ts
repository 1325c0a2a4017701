/** Tests a transaction with more contexts than fit into one list that SQLite accepts. */
import { openDatabase } from '../../../../agent/recording/format/database.ts';
import { openSegmentIndex } from '../../../../agent/recording/read/segment_index.ts';
import { recorded, recordingPath, START } from '../../../daemon/recorded.ts';

test('two million contexts find their segments', () => {
  const rows = Array.from({ length: 3000 }, (_, i) => ({ at: START + BigInt(i), transaction: `order-${i}` }));
  const database = openDatabase(recordingPath(recorded(rows)), { readonly: true });
  const index = openSegmentIndex(database, () => {});
  const { sealedEnd } = index.ends();
  const all = { firstNs: 0n, lastNs: 2n ** 63n - 1n, typeMask: 2n ** 63n - 1n, minDurationNs: 0n };
  const every = database.prepare('SELECT count(*) FROM segment WHERE sealed = 1').pluck().get();
  const contexts = Array.from({ length: 2_000_000 }, (_, i) => i + 1);
  const found = index.listSealedWithContexts(contexts, sealedEnd, all);
  expect(found).toHaveLength(every as number);
  expect(new Set(found.map(({ firstNumber }) => firstNumber)).size).toBe(every);
  database.close();
});
