/**
 * Tests that all events of a recording arrive as they were recorded, with the sums of transactions and minutes, and that
 * what is sent again replaces itself.
 */
import { ATTRIBUTION_SOURCES } from '../../bpf/schema/owner.ts';
import { type ClickHouseServer, endServers } from '../clickhouse/server.ts';
import { kreplay } from '../daemon/command_line.ts';
import { type Owner, type Row, recorded, recordingPath, START } from '../daemon/recorded.ts';
import { arrivedAt, countAt, rowsAt } from './centre.ts';
import { emptyFleet, expectAll, forgetPosition, mergeFleet, shipOnce, startFleet } from './fleet.ts';
import { shipHere } from './here.ts';
import { eventsOf, servicesOf } from './plain_events.ts';

let server: ClickHouseServer;

beforeAll(async () => {
  server = await startFleet();
});
afterAll(endServers);

const TRACE = (i: number) => (i + 1).toString(16).padStart(32, 'a');
const HOSTILE = [
  "') OR 1=1 --",
  'a\0b',
  '\0',
  'back\\slash\\N\\',
  'tab\tline\n"quote"',
  'größe 数 🚀 \u{10ffff}',
  '*',
  ' ',
  '-',
  `${'x'.repeat(1023)}y`,
  'NULL',
  '{"a":1}',
];
const SERVICES = ['shop', 'pay', 'mail', '', ...HOSTILE];

function ownerOf(i: number): Owner {
  const service = SERVICES[(i * 7) % SERVICES.length]!;
  if (i % 5 === 0) return { service };
  if (i % 5 === 1) return { service, trace: TRACE(i % 17) };
  const transaction = i % 11 === 0 ? HOSTILE[i % HOSTILE.length]! : `order-${i % 50}`;
  const span = i % 4 === 0 ? (i + 1).toString(16).padStart(16, 'b') : undefined;
  return { service, transaction, ...(i % 3 === 0 && { trace: TRACE(i % 50) }), ...(span && i % 3 === 0 && { span }) };
}

const NUMBERS = [0n, 1n, 127n, 128n, 255n, 4096n, 2n ** 32n - 1n, 2n ** 32n, 2n ** 53n + 1n, 2n ** 62n];
const RESULTS = [0n, 1n, -1n, -5n, -(2n ** 31n), 2n ** 31n, -(2n ** 63n) + 1n, 2n ** 63n - 1n];

/** Each kind of event and owner, over some hours and many segments. */
function rowAt(i: number): Row {
  const common = {
    at: START + BigInt(i) * 1_500_000_003n,
    duration: NUMBERS[i % NUMBERS.length]! + BigInt(i % 3),
    pid: (i * 7919) % 4_194_304,
    tid: (i * 104_729) % 4_194_304,
    cpu: i % 64,
    comm: HOSTILE[i % HOSTILE.length]!.slice(0, 15),
    result: RESULTS[(i * 3) % RESULTS.length]!,
    ...ownerOf(i),
  };
  const file = i % 4 === 0 ? {} : { file: `/var/lib/${HOSTILE[i % HOSTILE.length]}/${i % 97}` };
  switch (i % 3) {
    case 0:
      return { ...common, ...file, fileKind: 'socket', requested: i % 6 ? 2n ** 64n - 2n : 2n ** 64n - 1n, fd: -1 };
    case 1:
      return { ...common, ...file, type: 'sys_sync', fd: 2 ** 31 - 1, syscall: 'fdatasync' };
    default: {
      const origins = Array.from({ length: i % 5 }, (_, slot) => ({
        ...ownerOf(i + slot * 3),
        bytes: BigInt(i * 4096 + slot),
      }));
      const source = ATTRIBUTION_SOURCES[i % 2 ? 6 : 1]!;
      return { ...common, source, type: 'block_io', sector: 2n ** 63n + BigInt(i), device: `sd${i % 5}`, origins };
    }
  }
}

const COUNT = 5_000;
const rows = Array.from({ length: COUNT }, (_, i) => rowAt(i));

describe('a recording of all kinds of events', () => {
  afterEach(() => emptyFleet(server));

  test('arrives as it is, once, with its sums', async () => {
    const folder = recorded(rows);
    expect(await shipOnce(folder, server.url, '--group-events', '4096')).toMatchObject({
      code: 0,
      stdout: `kreplay ship: ${COUNT} events arrived in 2 groups\n`,
    });
    await expectAll(server, rows);
    expect(await shipOnce(folder, server.url)).toMatchObject({ code: 0, stdout: expect.stringContaining(' 0 events') });
    expect(await countAt(server, 'SELECT count() FROM kreplay.event')).toBe(COUNT);
    expect(await countAt(server, 'SELECT sum(n) FROM kreplay.segment')).toBe(COUNT);
  });

  test('is counted in words that fit the number', async () => {
    const stdout = 'kreplay ship: 1 event arrived in 1 group\n';
    expect(await shipOnce(recorded(rows.slice(0, 1)), server.url)).toMatchObject({ code: 0, stdout });
  });

  test('replaces itself when its position is lost and it is sent again', async () => {
    const folder = recorded(rows);
    await shipHere(folder, server.url);
    forgetPosition(folder);
    expect(await shipOnce(folder, server.url)).toMatchObject({ code: 1, stderr: expect.stringContaining('--claim') });
    expect(await countAt(server, 'SELECT count() FROM kreplay.event')).toBe(COUNT);
    expect(await shipOnce(folder, server.url, '--claim', '--group-events', '6000')).toMatchObject({ code: 0 });
    await expectAll(server, rows);
    await mergeFleet(server);
    await expectAll(server, rows);
    for (const table of ['event', 'segment'])
      expect(await countAt(server, `SELECT sum(${table === 'event' ? '1' : 'n'}) FROM kreplay.${table}`)).toBe(COUNT);
  });
});

describe('what has arrived of a recording of all kinds of events', () => {
  let folder: string;

  beforeAll(async () => {
    await emptyFleet(server);
    folder = recorded(rows);
    await shipHere(folder, server.url);
  });
  afterAll(() => emptyFleet(server));

  test('has the owners and names by which it is looked up', async () => {
    const { owners } = await arrivedAt(server);
    const events = eventsOf(rows);
    const wanted = events.map((event) => {
      const services = servicesOf(event);
      return [event.number, services.length > 1 ? '*' : (services[0] ?? '')];
    });
    expect([...owners]).toEqual(wanted);
    const names = await rowsAt(server, 'SELECT DISTINCT kind, text FROM kreplay.name ORDER BY kind, text');
    const services = [...new Set(events.flatMap(servicesOf))].map((text) => `service ${text}`);
    expect(names.map(({ kind, text }) => `${kind} ${text}`).sort()).toEqual(
      [...services, ...['sd0', 'sd1', 'sd2', 'sd3', 'sd4'].map((text) => `device ${text}`)].sort(),
    );
  });

  test('is what `kreplay events` reads from the file', async () => {
    const { stdout } = await kreplay('events', '--recording', recordingPath(folder), '--output', 'ndjson');
    const exact = (_: string, value: unknown, { source }: { source: string }) =>
      typeof value === 'number' ? source : value;
    const inFile = stdout
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => (JSON.parse as (text: string, reviver: typeof exact) => Record<string, unknown>)(line, exact))
      .map((event) => {
        const { event_id, timestamp_ns, duration_ns, result, pid, tid, service_name, comm } = event;
        const { transaction_id, trace_id, file } = event;
        const [recording, number] = String(event_id).split('-');
        const text = [timestamp_ns, duration_ns, result, pid, tid, service_name, comm].join(' ');
        const owner = [transaction_id ?? '', trace_id ?? '', file ?? ''].join(' ');
        return `${BigInt(`0x${recording}`)} ${BigInt(`0x${number}`)} ${text} ${owner}`;
      });
    const columns = 'recording, number, timestamp_ns, duration_ns, result, pid, tid, service, comm, transaction_id';
    const statement = `SELECT ${columns}, if(trace_id = '', '', lower(hex(trace_id))) AS trace,
      concat(sys_write_file, sys_sync_file) AS file FROM kreplay.event ORDER BY timestamp_ns, number`;
    const atCentre = (await rowsAt(server, statement)).map((row) =>
      Object.values({ ...row, trace: /^0*$/.test(String(row.trace)) ? '' : row.trace }).join(' '),
    );
    expect(atCentre).toEqual(inFile);
  });
});

describe('the ends of ranges', () => {
  afterEach(() => emptyFleet(server));

  test.each([
    ['times', [{ at: 0n }, { at: 2n ** 63n - 1n, duration: 2n ** 63n - 1n, transaction: 'last' }, { at: START }]],
    ['the first moment', [{ at: 0n, duration: 0n, transaction: 'first' }]],
    ['a name of 1 KB in every column', [{ at: START, service: 'é'.repeat(512), transaction: 'ü'.repeat(512) }]],
    ['no owner', [{ at: START, service: '' }]],
  ] as [string, Row[]][])('%s arrive', async (_, few) => {
    const folder = recorded(few);
    expect((await shipHere(folder, server.url)).log).not.toContain('rror');
    await expectAll(server, few);
  });

  test('an empty recording arrives, with its clock and its node', async () => {
    const folder = recorded([], (writer) => {
      writer.recordClock({ bootNs: 5n, offsetNs: -7n, kind: 'step', suspendedNs: 2n ** 40n });
      writer.recordLoss({ fromNs: START, toNs: START + 1n, cause: 'ring_full', eventType: 'sys_write', count: 9 });
    });
    await shipHere(folder, server.url);
    expect(await rowsAt(server, 'SELECT boot_ns, offset_ns, kind, suspended_ns FROM kreplay.clock')).toEqual([
      { boot_ns: '5', offset_ns: '-7', kind: 'step', suspended_ns: '1099511627776' },
    ]);
    expect(await rowsAt(server, 'SELECT cause, event_type, count, from_ns FROM kreplay.loss')).toEqual([
      { cause: 'ring_full', event_type: 'sys_write', count: '9', from_ns: String(START) },
    ]);
    expect(await countAt(server, 'SELECT count() FROM kreplay.node')).toBeGreaterThan(0);
  });
});
