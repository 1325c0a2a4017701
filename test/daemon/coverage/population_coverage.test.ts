/** Tests that answers about many transactions report what is missing wherever and until those transactions took place. */
import { openWriter } from '../../../agent/recording/write/writer.ts';
import { openRecordingStore } from '../../../daemon/store/embedded/recording_store.ts';
import { appendRows, newFolder, type Row, recordedOn, recordingPath, START, setMeta } from '../recorded.ts';
import { type Served, served } from '../served.ts';

const S = 1_000_000_000n;
/** The time that is asked about. */
const [FROM, TO] = [START, START + 10n * S];

interface Loss {
  node: string;
  from: bigint;
  to: bigint;
}

/** Serves the rows of each node, recorded from 10 s before the window until 100 s after its start. */
async function servedOn(rows: Record<string, Row[]>, losses: readonly Loss[]): Promise<Served> {
  const paths = Object.entries(rows).map(([node, own]) => {
    const path = recordingPath(
      recordedOn(node, own, (writer) => {
        for (const { from, to } of losses.filter((one) => one.node === node))
          writer.recordLoss({ cause: 'ring_full', eventType: null, count: 3, fromNs: from, toNs: to });
      }),
    );
    setMeta(path, { created_ns: START - 10n * S, alive_ns: START + 100n * S });
    return path;
  });
  const daemon = await served(openRecordingStore(undefined, paths));
  daemon.setNow(START + 100n * S);
  return daemon;
}

interface Coverage {
  complete: boolean;
  lost: number;
  losses: { node: string }[];
  nodes: { node: string }[];
}

/** The coverage of each kind of answer about transactions that began in the window. */
async function coverages(daemon: Served, node?: string): Promise<Coverage[]> {
  const list = `from=${FROM}&to=${TO}${node === undefined ? '' : `&node=${node}`}`;
  const compared = list.replace('from=', 'window_from=').replace('to=', 'window_to=');
  const paths = [
    ...[`/api/transactions?${list}`, `/api/transactions?sort=slowest&limit=1&${list}`, `/api/heatmap?${list}`],
    `/api/differences?${compared}`,
  ];
  const answers = await Promise.all(paths.map((path) => daemon.get(path)));
  const where = { from: `${FROM}`, to: `${TO}`, ...(node !== undefined && { node: [node] }) };
  const body = JSON.stringify({ where, extra_latency_ns: 1 });
  const headers = { 'content-type': 'application/json' };
  answers.push(await daemon.get('/api/replay/whatif', { method: 'POST', headers, body }));
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200]);
  return answers.map(({ json }) => json.coverage);
}

const lostIn = (all: readonly Coverage[]) => all.map(({ complete, lost }) => [complete, lost]);
const inAll = (complete: boolean, lost: number) => Array.from({ length: 5 }, () => [complete, lost]);

/** Began in the window, and goes on for 20 s after it; the write-back follows later. */
const long: Row[] = [
  { at: START + 9n * S, duration: S, transaction: 'long' },
  { at: START + 12n * S, duration: 18n * S, transaction: 'long' },
  { at: START + 60n * S, type: 'block_io', source: 'origin', transaction: 'long' },
];
const short: Row = { at: START + S, transaction: 'short' };

test('a loss after the window, while a transaction of the window still runs, is reported', async () => {
  const daemon = await servedOn({ a: [short, ...long] }, [{ node: 'a', from: START + 20n * S, to: START + 21n * S }]);
  expect(lostIn(await coverages(daemon))).toEqual(inAll(false, 3));
});

test('a loss that begins when the last event of a transaction ends is reported', async () => {
  const daemon = await servedOn({ a: [short, ...long] }, [{ node: 'a', from: START + 30n * S, to: START + 31n * S }]);
  expect(lostIn(await coverages(daemon))).toEqual(inAll(false, 3));
});

test('a loss after the end of all transactions of the window is none of theirs', async () => {
  const loss = { node: 'a', from: START + 30n * S + 1n, to: START + 31n * S };
  expect(lostIn(await coverages(await servedOn({ a: [short, ...long] }, [loss])))).toEqual(inAll(true, 0));
  // The transaction that ran then began before the window.
  const early = [{ ...short }, { at: START - S, duration: 50n * S, transaction: 'early' }];
  expect(lostIn(await coverages(await servedOn({ a: early }, [loss])))).toEqual(inAll(true, 0));
  expect(lostIn(await coverages(await servedOn({ a: [] }, [loss])))).toEqual(inAll(true, 0));
});

test('a loss on another node is reported if a transaction of the node that is asked for took part there', async () => {
  const loss = { node: 'b', from: START + 3n * S, to: START + 4n * S };
  const after = { ...loss, from: START + 20n * S, to: START + 21n * S };
  const onBoth = { a: [short], b: long.map((row) => ({ ...row, transaction: 'short' })) };
  for (const one of [loss, after]) {
    const found = await coverages(await servedOn(onBoth, [one]), 'a');
    expect(lostIn(found)).toEqual(inAll(false, 3));
    for (const { nodes } of found) expect(nodes.map(({ node }) => node)).toEqual(['a', 'b']);
  }
  const apart = await coverages(await servedOn({ a: [short], b: long }, [loss]), 'a');
  expect(lostIn(apart)).toEqual(inAll(true, 0));
  for (const { nodes } of apart) expect(nodes.map(({ node }) => node)).toEqual(['a']);
});

test('a node that is asked for and was never recorded stays a gap', async () => {
  const found = await coverages(await servedOn({ a: [short] }, []), 'z');
  expect(lostIn(found)).toEqual(inAll(false, 0));
  for (const { losses } of found) expect(losses.map(({ node }) => node)).toEqual(['z']);
});

test('pages of one list have the same coverage', async () => {
  const daemon = await servedOn({ a: [short, ...long] }, [{ node: 'a', from: START + 20n * S, to: START + 21n * S }]);
  for (let query = `sort=recent&limit=1&from=${FROM}&to=${TO}`, page = 0; page < 2; page++) {
    const { json } = await daemon.get(`/api/transactions?${query}`);
    expect([json.transactions.length, json.coverage.lost]).toEqual([1, 3]);
    query = `sort=recent&limit=1&from=${FROM}&to=${TO}&cursor=${json.next_cursor}`;
  }
});

describe('a map without from', () => {
  const mapOf = async (daemon: Served, query: string) => (await daemon.get(`/api/heatmap?${query}`)).json;

  test('begins with a transaction that began on another node than the one that is asked for', async () => {
    const rows = { a: [{ ...short, at: START + 5n * S }], b: [short] };
    const map = await mapOf(await servedOn(rows, []), 'node=a');
    expect([map.total.count, map.from]).toEqual([1, Number(START + S)]);
    expect(map.cells).toEqual([[0, expect.any(Number), 1, 0]]);
  });

  test('begins with the first recorded event if that is earlier than all transactions', async () => {
    const map = await mapOf(await servedOn({ a: [{ at: START }, short] }, []), 'node=a');
    expect([map.total.count, map.from]).toEqual([1, Number(START)]);
  });

  test('has all transactions that the list has, after retention has removed the first events of one', async () => {
    const folder = newFolder();
    const clock = { nowNs: START };
    const origin = { node: 'n', bootId: 'b', machineId: 'm', nowNs: () => clock.nowNs };
    const writer = openWriter({ path: recordingPath(folder), ...origin, retention: { ageNs: 300n * S } });
    for (let minute = 0n; minute < 10n; minute++) {
      const at = START + minute * 60n * S;
      const filling = Array.from({ length: 4096 }, (_, i): Row => ({ at: at + 1n + BigInt(i) }));
      appendRows(writer, [{ at, duration: S, transaction: 'tx' }, ...filling]);
      clock.nowNs += 60n * S;
      writer.flush();
    }
    writer.close();
    const daemon = await served(folder);
    daemon.setNow(clock.nowNs);
    const { events } = (await daemon.get('/api/events?limit=1')).json;
    const { transactions } = (await daemon.get('/api/transactions')).json;
    expect(events[0].timestamp_ns).toBeGreaterThan(transactions[0].first_timestamp_ns);
    const map = await mapOf(daemon, '');
    expect([transactions.length, map.total.count]).toEqual([1, 1]);
    expect(map.from).toBeLessThanOrEqual(transactions[0].first_timestamp_ns);
  });
});
