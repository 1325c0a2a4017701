/**
 * Tests that every question has the same answer from recordings and from the tables that they were sent to, and that a
 * scan of the tables has the same events, byte for byte.
 */
import fc from 'fast-check';
import { stringify } from '../../../../daemon/base/exact_json.ts';
import { Problem } from '../../../../daemon/base/problem.ts';
import { readEventKey } from '../../../../daemon/store/blocks/event.ts';
import { encodeJsonChunks } from '../../../../daemon/store/blocks/event_json.ts';
import type { ScannedBlock } from '../../../../daemon/store/blocks/scanned_block.ts';
import { openRecordingStore } from '../../../../daemon/store/embedded/recording_store.ts';
import type { Recordings } from '../../../../daemon/store/embedded/recordings.ts';
import { scanFleet } from '../../../../daemon/store/fleet/scan.ts';
import type { ScanRequest, Store, TransactionKey } from '../../../../daemon/store/store.ts';
import { countBursts } from '../../../../daemon/store/transaction_bursts.ts';
import { computeHeatmapColumns } from '../../../../daemon/sums/heatmap.ts';
import { endServers } from '../../../clickhouse/server.ts';
import { times } from '../../../repeats.ts';
import { later } from '../../later.ts';
import { START } from '../../recorded.ts';
import { bothStores, resultOf } from './both_stores.ts';
import { HOSTILE, NODES, recordedCorpus, SECOND, TRANSACTIONS } from './corpus.ts';
import {
  drawnFilter,
  drawnGroups,
  drawnOrder,
  drawnSort,
  drawnSums,
  drawnTransactionFilter,
} from './drawn_requests.ts';

const RUNS = { numRuns: times(8) };
const [FROM, TO] = [START - 60n * SECOND, START + 1200n * SECOND];
let both: Awaited<ReturnType<typeof bothStores>>;
let recordings: Recordings;

beforeAll(async () => {
  const paths = recordedCorpus();
  both = await bothStores(paths);
  recordings = openRecordingStore(undefined, paths);
}, 60_000);
afterAll(async () => {
  await both?.close();
  recordings?.close();
  await endServers();
});

/** The answers of both, or what they refuse with. */
async function answers(ask: (store: Store) => Promise<unknown>): Promise<[tables: unknown, files: unknown]> {
  const answerOf = async (store: Store) => {
    try {
      return JSON.parse(stringify((await ask(store)) ?? null));
    } catch (error) {
      if (!(error instanceof Problem)) throw error;
      return { refused: error.code };
    }
  };
  return [await answerOf(both.tables), await answerOf(both.files)];
}

async function expectSame(ask: (store: Store) => Promise<unknown>): Promise<void> {
  const [tables, files] = await answers(ask);
  expect(tables).toEqual(files);
}

describe('both stores', () => {
  test('have the same names, losses and events by id', async () => {
    await expectSame((store) => store.listServices());
    await expectSame((store) => store.listNodes());
    for (const parts of [undefined, 'all', { transactionId: 'left-out' }, { transactionId: 'none' }] as const) {
      await expectSame(async (store) =>
        (await store.listLosses(undefined, undefined, undefined, parts)).map((loss) => {
          const { fromNs, toNs, lost, cause, node, service, transactionId, isDivided, sums } = loss;
          return [fromNs, toNs, lost, cause, node, service, transactionId, isDivided, sums];
        }),
      );
    }
    await expectSame((store) => store.readUnended());
    await expectSame((store) => store.readUnended([NODES[0]!]));
    const [{ events }] = (await answers((store) =>
      resultOf(store.findSlowest({ filter: {}, limit: 50, after: undefined })),
    )) as [{ events: { event_id: string }[] }, unknown];
    for (const { event_id } of events) await expectSame((store) => store.findEvent(event_id));
    for (const id of [
      '',
      'x',
      '0123456789abcdef-0000000000000001',
      `${events[0]!.event_id.slice(0, 17)}00000000ffffffff`,
    ])
      await expectSame((store) => store.findEvent(id));
  });

  test('have the same transactions', async () => {
    const ids = [...TRANSACTIONS, ...HOSTILE, '', 'not there'];
    for (const id of ids) await expectSame((store) => store.findTransaction(id));
    await expectSame(async (store) =>
      [...(await store.findTransactionsById(ids))].sort(([a], [b]) => (a < b ? -1 : 1)),
    );
  });

  test('explain each transaction alike', async () => {
    const range = { nodes: NODES, eventsMax: 100_000 };
    for (const transactionId of [...TRANSACTIONS, ...HOSTILE])
      for (const othersMax of [100_000, 1])
        await expectSame((store) => resultOf(store.explainTransaction({ ...range, transactionId, othersMax })));
    const one = { ...range, transactionId: TRANSACTIONS[0]!, othersMax: 1 };
    await expectSame((store) => resultOf(store.explainTransaction({ ...one, eventsMax: 1 })));
    await expectSame((store) =>
      resultOf(store.explainTransaction({ ...one, fromNs: FROM, toNs: START + 60n * SECOND })),
    );
  });

  test('have the same lists of transactions, and a page of one goes on in the other', async () => {
    let most = 0;
    await fc.assert(
      fc.asyncProperty(
        drawnTransactionFilter,
        drawnSort,
        fc.integer({ min: 5, max: 30 }),
        async (filter, sort, limit) => {
          let after: TransactionKey | undefined;
          let [count, store] = [0, both.files];
          do {
            const request = { filter, sort, limit, ...(after && { after }) };
            await expectSame((either) => resultOf(either.listTransactions(request)));
            const page = await resultOf(store.listTransactions(request));
            count += page.transactions.length;
            after = page.next ?? undefined;
            store = store === both.files ? both.tables : both.files;
          } while (after);
          most = Math.max(most, count);
        },
      ),
      // One of all transactions, in pages, is always among them.
      { ...RUNS, examples: [[{}, 'recent', 7]] },
    );
    expect(most).toBe(TRANSACTIONS.length);
  }, 120_000);

  test('count the same bursts of each transaction', async () => {
    const first = { filter: {}, sort: 'recent', limit: TRANSACTIONS.length } as const;
    const limits = { transactionsMax: TRANSACTIONS.length, eventsMax: 1_000_000 };
    const countIn = async (store: Store) => {
      const { transactions } = await resultOf(store.listTransactions(first));
      return resultOf(countBursts(store, transactions, limits));
    };
    await expectSame(countIn);
    expect(await countIn(both.files)).toHaveLength(TRANSACTIONS.length);
  });

  test('have the same sums', async () => {
    const bucket = fc.constantFrom(undefined, SECOND, 60n * SECOND, 3600n * SECOND);
    await fc.assert(
      fc.asyncProperty(drawnFilter, bucket, drawnGroups, (filter, bucketNs, groupBy) =>
        expectSame((store) => resultOf(store.computeStats({ filter, bucketNs, groupBy }))),
      ),
      RUNS,
    );
  }, 120_000);

  test('have the same sums of minutes that were summed up when they were sent', async () => {
    await fc.assert(
      fc.asyncProperty(drawnSums, (request) => expectSame((store) => resultOf(store.computeStats(request)))),
      { numRuns: times(20) },
    );
  }, 120_000);

  test('have the same slowest events, and a page of one goes on in the other', async () => {
    await fc.assert(
      fc.asyncProperty(drawnFilter, fc.integer({ min: 1, max: 40 }), async (filter, limit) => {
        await expectSame((store) => resultOf(store.findSlowest({ filter, limit })));
        const { next } = await resultOf(both.files.findSlowest({ filter, limit }));
        if (next) await expectSame((store) => resultOf(store.findSlowest({ filter, limit, after: next })));
      }),
      RUNS,
    );
  }, 120_000);

  test('have the same maps of events and of transactions', async () => {
    const columns = computeHeatmapColumns(FROM, TO, 50);
    await fc.assert(
      fc.asyncProperty(drawnFilter, drawnTransactionFilter, async (filter, ofTransactions) => {
        await expectSame((store) => resultOf(store.computeHeatmap({ of: 'events', filter, columns })));
        await expectSame((store) =>
          resultOf(
            store.computeHeatmap({
              of: 'transactions',
              filter: ofTransactions,
              computeColumns: (reach) => (reach ? computeHeatmapColumns(reach.fromNs, reach.toNs, 20) : columns),
            }),
          ),
        );
      }),
      RUNS,
    );
  }, 120_000);

  test('find the same differences', async () => {
    const box = { fromNs: START + 100n * SECOND, toNs: START + 500n * SECOND, maxDurationNs: 2n ** 53n };
    const eventsMax = 100_000;
    await fc.assert(
      fc.asyncProperty(drawnFilter, drawnTransactionFilter, async (filter, ofTransactions) => {
        await expectSame((store) => resultOf(store.compare({ of: 'events', filter, box, eventsMax })));
        await expectSame((store) =>
          resultOf(store.compare({ of: 'transactions', filter: ofTransactions, box, eventsMax })),
        );
      }),
      RUNS,
    );
    await expectSame((store) => resultOf(store.compare({ of: 'events', filter: {}, box, eventsMax: 10 })));
  }, 120_000);

  test('have the spans of the same nodes', async () => {
    const nodesOf = async (store: Store, nodes?: string[]) =>
      (await store.listSpans(nodes)).map(({ node }) => node).sort();
    for (const nodes of [undefined, [NODES[0]!], [], ['not there']])
      expect(await nodesOf(both.tables, nodes)).toEqual(await nodesOf(both.files, nodes));
  });
});

async function linesOf(blocks: AsyncIterable<ScannedBlock>): Promise<string[]> {
  const chunks: Buffer[] = [];
  for await (const chunk of encodeJsonChunks(blocks, '\n')) chunks.push(Buffer.from(chunk));
  return Buffer.concat(chunks).toString().split('\n').filter(Boolean);
}

const sent = (request: ScanRequest) => linesOf(scanFleet(both.fleet, request));
const recorded = (request: ScanRequest) => linesOf(later(recordings.scan(request)));

describe('a scan', () => {
  test.each(['asc', 'desc'] as const)('has every event once, in order (%s)', async (order) => {
    const lines = await sent({ filter: {}, order });
    expect(lines).toHaveLength(2400);
    expect(lines).toEqual(await recorded({ filter: {}, order }));
  });

  test('has what a filter selects, in pages', async () => {
    let most = 0;
    await fc.assert(
      fc.asyncProperty(drawnFilter, drawnOrder, fc.integer({ min: 1, max: 300 }), async (filter, order, limit) => {
        const all = await recorded({ filter, order });
        most = Math.max(most, all.length);
        expect(await sent({ filter, order })).toEqual(all);
        const page = await sent({ filter, order, limit });
        expect(page).toEqual(all.slice(0, limit));
        if (page.length === 0) return;
        const last = JSON.parse(page.at(-1)!);
        const after = { timestamp_ns: BigInt(/"timestamp_ns":(\d+)/.exec(page.at(-1)!)![1]!), event_id: last.event_id };
        expect(await sent({ filter, order, limit, after })).toEqual(all.slice(limit, 2 * limit));
        expect(await recorded({ filter, order, limit, after })).toEqual(all.slice(limit, 2 * limit));
      }),
      // One of all events is always among them.
      { numRuns: times(15), examples: [[{}, 'asc', 300]] },
    );
    expect(most).toBeGreaterThan(1000);
  }, 300_000);

  test('returns the columns that are asked for, and knows each row by its key', async () => {
    const columns = ['duration_ns', 'block_io.device'];
    const request = { filter: { eventTypes: ['block_io'] }, order: 'asc', columns } as const;
    const [blocks, expected] = [[] as ScannedBlock[], [...recordings.scan(request)]];
    for await (const scanned of scanFleet(both.fleet, request)) blocks.push(scanned);
    const keysOf = (some: ScannedBlock[]) =>
      some.flatMap((one) => Array.from({ length: one.block.rowCount }, (_, row) => readEventKey(one, row)));
    expect(keysOf(blocks)).toEqual(keysOf(expected));
    const names = ['block_io.device', 'duration_ns', 'event_type', 'recording', 'timestamp_ns'];
    for (const { block } of blocks) expect([...block.columns.keys()].sort()).toEqual(names);
  });
});

test.each([
  ['goes on', undefined, { events: 1, lost: 0, unlisted: [false] }],
  ['was killed, and another recording of its node has begun', 'own', { events: 0, lost: 1, unlisted: [true] }],
  ['was killed, and one of another node has begun', 'other', { events: 1, lost: 0, unlisted: [false] }],
])('of a node whose agent %s, what is in progress is known', async (_, next, expected) => {
  const [node, recording] = [`killed ${next}`, `${90 + expected.events}${next?.length ?? 0}`];
  const owner = { service_name: 'shop', transaction_id: 'order-1', trace_id: null };
  const call = { ...owner, event_type: 'sys_sync', timestamp_ns: '90', pid: 1, tid: 1, comm: 'db', origins: [] };
  const said = JSON.stringify({ events: [call], lost: [], unlisted: { count: 3, labelled: 1, sinceNs: '80' } });
  const rows = [`(${recording}, 1, '${node}', 1, 100, 0, 100, '${said}')`];
  if (next) rows.push(`(${recording}0, 1, '${next === 'own' ? node : next}', 200, 300, 0, 300, '')`);
  await both.server.sql(
    `INSERT INTO fleet.node (recording, at, node, created_ns, alive_ns, ended_ns, watermark_ns, in_progress)
      VALUES ${rows.join(', ')}`,
  );
  const { events, lost, unlisted } = await both.tables.readUnended([node, 'other']);
  expect({ events: events.length, lost: lost.length, unlisted: unlisted.map(({ isLost }) => isLost) }).toEqual(
    expected,
  );
});

test('a recording of which nothing has arrived yet is not over beside an older one of its node', async () => {
  const said = JSON.stringify({ events: [], lost: [], unlisted: { count: 3, labelled: 1, sinceNs: '310' } });
  await both.server.sql(
    `INSERT INTO fleet.node (recording, at, node, created_ns, alive_ns, ended_ns, watermark_ns, in_progress)
      VALUES (801, 1, 'new', 1, 100, 100, 100, ''), (802, 1, 'new', 200, 320, 0, 0, '${said}')`,
  );
  const { unlisted } = await both.tables.readUnended(['new']);
  expect(unlisted).toMatchObject([{ count: 3, isLost: false }]);
});
