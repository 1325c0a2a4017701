/** Tests what the tables of a fleet have in common: what servers say, where they differ, and what an operator asks for. */
import type { Found, FoundTable } from '../../../../agent/clickhouse/tables/found.ts';
import { chooseLayout, type WantedLayout } from '../../../../agent/clickhouse/tables/layout.ts';
import type { MetaDraft } from '../../../../agent/clickhouse/tables/meta.ts';

const SECOND = 1_000_000_000n;

/** Engines and expressions as servers of 18.16 and 26.7 write them. */
const ALONE = 'ReplacingMergeTree() PARTITION BY day ORDER BY id SETTINGS index_granularity = 8192';
const WITH_POLICY = `ReplacingMergeTree PARTITION BY day ORDER BY (id) SETTINGS index_granularity = 8192, storage_policy = 's3'`;
const REPLICATED = `ReplicatedReplacingMergeTree('/clickhouse/kreplay/{shard}/kreplay/event', '{replica}') ORDER BY id`;

function table(engine: string, bucketNs?: bigint): FoundTable {
  const expression = `toUInt32(intDiv(timestamp_ns, ${bucketNs}))`;
  return { engine, columns: new Map(bucketNs ? [['bucket', { type: 'UInt32', expression }]] : []) };
}

function found(tables: Record<string, FoundTable> = {}, draft?: MetaDraft, place = 'db1'): Found {
  return { place, hasDatabase: true, tables: new Map(Object.entries(tables)), draft };
}

const layout = (founds: Found | Found[], wanted: WantedLayout = {}) => chooseLayout([founds].flat(), wanted, 'kreplay');

test('new tables are as they are asked for', () => {
  expect(layout(found())).toEqual({ bucketNs: 60n * SECOND });
  const wanted = { bucketNs: SECOND, cluster: 'main', storagePolicy: 's3' };
  expect(layout([found(), found()], wanted)).toEqual(wanted);
});

test('tables that are there say what others have to be, without and with meta', () => {
  const event = table(WITH_POLICY, 10n * SECOND);
  expect(layout(found({ event }))).toEqual({ bucketNs: 10n * SECOND, storagePolicy: 's3' });
  const twin = table("Distributed('main', 'kreplay', 'event')");
  const old = table('Distributed(main, kreplay, event)');
  for (const event_all of [twin, old])
    expect(layout(found({ event: table(REPLICATED, SECOND), event_all }))).toEqual({
      bucketNs: SECOND,
      cluster: 'main',
    });
  const draft = { bucketNs: SECOND, cluster: 'main', storagePolicy: 's3' };
  expect(layout(found({ meta: table(REPLICATED) }, draft))).toEqual(draft);
});

test('a server without tables gets what the others have', () => {
  const first = found({ event: table(REPLICATED, SECOND) }, { bucketNs: SECOND, cluster: 'main', storagePolicy: 's3' });
  const second = found({}, undefined, 'db2');
  expect(layout([second, first])).toEqual({ bucketNs: SECOND, cluster: 'main', storagePolicy: 's3' });
});

const alone = { event: table(ALONE, SECOND) };
const policy = { event: table(WITH_POLICY, SECOND) };
const replicated = { event: table(REPLICATED, SECOND) };
const main = { bucketNs: SECOND, cluster: 'main' };

test.each([
  ['another bucket', found(alone), { bucketNs: 2n }, /have buckets of 1000000000 ns, .*: leave out --bucket/],
  ['a cluster where there is none', found(alone), { cluster: 'main' }, /not replicated: leave out --cluster/],
  ['another cluster', found(replicated, main), { cluster: 'b' }, /pass --cluster main, or leave it out/],
  ['no cluster where none is known', found(replicated), {}, /pass --cluster NAME/],
  ['another policy', found(policy), { storagePolicy: 'b' }, /pass --storage-policy s3, or leave out/],
  ['a policy where there is none', found(alone), { storagePolicy: 's3' }, /no storage policy: leave out --storage/],
  ['tables of a newer kreplay', found(alone, { bucketNs: SECOND, schemaVersion: 2 }), {}, /use the newer kreplay/],
  [
    'tables of which some are replicated',
    found({ ...replicated, stat: table(ALONE) }),
    {},
    /event is replicated, kreplay.stat is not: drop the one that is wrong/,
  ],
  [
    'an event table of another bucket than meta says',
    found(alone, { bucketNs: 2n }),
    {},
    /kreplay.meta says buckets of 2 ns, kreplay.event has buckets of 1000000000 ns/,
  ],
  [
    'pinned events of another bucket',
    found({ ...alone, pinned_event: table(ALONE, 2n) }),
    {},
    /event says buckets of 1000000000 ns, kreplay.pinned_event has buckets of 2 ns/,
  ],
  [
    'a bucket that is not of kreplay',
    found({ event: { engine: ALONE, columns: new Map([['bucket', { type: 'UInt32', expression: '7' }]]) } }),
    {},
    /the column bucket of kreplay.event is not of kreplay/,
  ],
] as const)('%s is refused', (_, server, wanted, message) => {
  expect(() => layout(server, wanted)).toThrow(message);
});

test.each([
  [
    'buckets',
    found({ event: table(ALONE, 2n) }, undefined, 'db2'),
    /db1 has buckets of 1000000000 ns, db2 has .* 2 ns/,
  ],
  ['replication', found(replicated, main, 'db2'), /db1 has unreplicated tables, db2 has replicated tables/],
  ['storage policies', found(policy, undefined, 'db2'), /db1 has no storage policy, db2 has the storage policy s3/],
])('servers with different %s are refused', (_, second, message) => {
  expect(() => layout([found(alone), second])).toThrow(message);
});

test('servers of different clusters are refused', () => {
  const second = found(replicated, { ...main, cluster: 'b' }, 'db2');
  expect(() => layout([found(replicated, main), second])).toThrow(
    /of the cluster main, db2 has tables of the cluster b/,
  );
});
