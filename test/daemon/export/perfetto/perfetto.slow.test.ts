/** Tests traces as protoc reads them with Perfetto's own field numbers. */
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { createMessageWriter } from '../../../../daemon/export/perfetto/messages.ts';
import { type Row, recorded, START } from '../../recorded.ts';
import { CORNER_ROWS, exported, I64_MAX, readWith, U64_MAX } from '../exported.ts';

/** A message in protoc's text format: the values of every field in order. */
interface Message {
  [field: string]: (Message | string)[];
}

/** Parses lines of the forms `name { ... }` and `name: value`; texts have C escapes. */
function parseText(text: string): Message {
  const root: Message = {};
  const open = [root];
  for (const line of text.split('\n')) {
    const [, name, value] = /^ *(\w+)(?:: (.*)| \{)$/.exec(line) ?? [];
    const message = open.at(-1)!;
    if (name === undefined) {
      if (line.trim() === '}') open.pop();
      continue;
    }
    message[name] ??= [];
    if (value !== undefined) message[name].push(value);
    else {
      const inner: Message = {};
      message[name].push(inner);
      open.push(inner);
    }
  }
  return root;
}

const ESCAPES: Record<string, string> = { n: '\n', r: '\r', t: '\t' };

function unquoted(text: string): string {
  const bytes = text.slice(1, -1).replace(/\\([0-7]{3}|.)/g, (_, code: string) => {
    return code.length === 3 ? String.fromCharCode(Number.parseInt(code, 8)) : (ESCAPES[code] ?? code);
  });
  return Buffer.from(bytes, 'latin1').toString('utf8');
}

const one = (message: Message, ...path: string[]): string =>
  path.reduce<Message | string>((at, field) => (at as Message)[field]?.[0] ?? '', message) as string;
const all = (message: Message, field: string) => (message[field] ?? []) as Message[];

interface Slice {
  name: string;
  category: string;
  track: string;
  startNs: bigint;
  endNs: bigint;
  flow: string;
  arguments: Record<string, string>;
}

interface Trace {
  /** Wall clock and boot clock at the same moments. */
  readings: bigint[][];
  tracks: Map<string, Message>;
  slices: Slice[];
}

function decoded(path: string): Trace {
  const args = ['--decode=perfetto.protos.Trace', '-I', import.meta.dirname, 'perfetto.proto'];
  const text = readWith('protoc', args, readFileSync(path));
  // A field that the .proto file does not describe would be printed by its number.
  expect(text).not.toMatch(/^ *\d+[:{ ]/m);
  const packets = all(parseText(text), 'packet');
  const names = (field: string) =>
    new Map(
      packets
        .flatMap((packet) => all(packet, 'interned_data'))
        .flatMap((data) => all(data, field))
        .map((entry) => [one(entry, 'iid'), unquoted(one(entry, 'name'))]),
    );
  const [categories, eventNames, argumentNames] = ['event_categories', 'event_names', 'debug_annotation_names'].map(
    names,
  );
  const tracks = new Map(
    packets.flatMap((packet) => all(packet, 'track_descriptor')).map((track) => [one(track, 'uuid'), track]),
  );
  const open = new Map<string, Slice>();
  const slices: Slice[] = [];
  // Perfetto sorts by time and keeps the order of packets of the same time.
  const edges = packets.filter((packet) => packet.track_event).sort(byTime);
  for (const packet of edges) {
    const event = all(packet, 'track_event')[0]!;
    const track = one(event, 'track_uuid');
    const ns = BigInt(one(packet, 'timestamp'));
    if (one(event, 'type') === 'TYPE_SLICE_END') {
      const slice = open.get(track)!;
      slice.endNs = ns;
      open.delete(track);
      continue;
    }
    expect([track, open.has(track), tracks.has(track)]).toEqual([track, false, true]);
    const slice: Slice = {
      name: eventNames!.get(one(event, 'name_iid'))!,
      category: categories!.get(one(event, 'category_iids'))!,
      track,
      startNs: ns,
      endNs: -1n,
      flow: one(event, 'flow_ids'),
      arguments: Object.fromEntries(
        all(event, 'debug_annotations').map(({ name_iid: iid, ...value }) => {
          const text = Object.values(value)[0]![0] as string;
          return [argumentNames!.get(iid![0] as string)!, text.startsWith('"') ? unquoted(text) : text];
        }),
      ),
    };
    open.set(track, slice);
    slices.push(slice);
  }
  expect(open.size).toBe(0);
  const snapshots = packets.flatMap((packet) => all(packet, 'clock_snapshot'));
  return {
    readings: snapshots.map((snapshot) => {
      const clocks = all(snapshot, 'clocks').map((clock) => [one(clock, 'clock_id'), one(clock, 'timestamp')] as const);
      return ['1', '6'].map((id) => BigInt(new Map(clocks).get(id)!));
    }),
    tracks,
    slices,
  };
}

function byTime(a: Message, b: Message): number {
  const [first, second] = [BigInt(one(a, 'timestamp')), BigInt(one(b, 'timestamp'))];
  return first < second ? -1 : first > second ? 1 : 0;
}

const BOOT = 77_000_000_000n;

async function cornerTrace(): Promise<Trace> {
  const data = recorded(CORNER_ROWS, (writer) => {
    writer.recordClock({ bootNs: 1000n, offsetNs: START - BOOT, kind: 'start', suspendedNs: 0n });
    writer.recordLoss({ cause: 'ring_full', eventType: null, count: 3, fromNs: START + 10n, toNs: START + 20n });
  });
  return decoded((await exported(data, 'perfetto')).path);
}

test('an event is a slice with its times, its name and its fields', async () => {
  const { slices, readings } = await cornerTrace();
  expect(readings).toEqual([[START, BOOT]]);
  expect(slices.map(({ name, category, startNs, endNs }) => [category, name, startNs - BOOT, endNs - startNs])).toEqual(
    [
      ['sys_write', 'pwritev2', 0n, 1_234_567n],
      ['sys_write', 'write', 1n, 0n],
      ['sys_write', 'write', 2n, 5n],
      ['block_io', 'flush', 3n, 100n],
      ['loss', 'ring_full', 10n, 10n],
      ['block_io', 'read', 50n, 100n],
      ['block_io', 'write', 103n, 1n],
    ],
  );
  expect(slices[0]!.arguments).toMatchObject({
    service_name: '=cmd|"/c calc"!A1',
    transaction_id: 'order-1',
    comm: 'a,b "c"',
    attribution_source: 'otel',
    attribution_quality: 'shared',
    result: `${-(2n ** 63n)}`,
    bytes_requested: `${U64_MAX - 1n}`,
    fd: '-1',
    file: '/var/lib/\u{1f4be}/new\nline\r\n,"q"/\u001b[31m\t',
  });
  expect(slices[1]!.arguments).not.toHaveProperty('transaction_id');
  expect(slices[3]!.arguments).toMatchObject({ sector: `${U64_MAX}`, bytes: `${I64_MAX}`, device: 'nvme0n1' });
  expect(slices[4]!.arguments).toEqual({ lost_events: '3' });
});

test('a call is on its thread, a request on its device, and overlapping ones on another lane of the same name', async () => {
  const { slices, tracks } = await cornerTrace();
  const track = (slice: Slice) => tracks.get(slice.track)!;
  const [first, second] = slices.filter(({ category }) => category === 'sys_write').map(track);
  expect(one(first!, 'thread', 'tid')).toBe('4194302');
  expect(unquoted(one(first!, 'thread', 'thread_name'))).toBe('a,b "c"');
  expect(one(tracks.get(one(first!, 'parent_uuid'))!, 'process', 'pid')).toBe('4194303');
  expect(one(second!, 'thread', 'tid')).toBe('100');
  const requests = slices.filter(({ category }) => category === 'block_io');
  expect(requests.map((slice) => one(track(slice), 'name'))).toEqual(Array(3).fill('"block_io nvme0n1"'));
  const lanes = requests.map((slice) => slice.track);
  expect(lanes[0]).not.toBe(lanes[1]);
  // The third request begins when the first one has ended.
  expect(lanes[2]).toBe(lanes[0]);
});

test('a flow connects the events of a transaction', async () => {
  const { slices } = await cornerTrace();
  const flows = slices.map(({ flow }) => flow);
  expect(flows[0]).toMatch(/^\d+$/);
  expect(flows[3]).toBe(flows[0]);
  expect([flows[1], flows[4]]).toEqual(['', '']);
  expect(flows[2]).not.toBe(flows[0]);
});

test('an event is placed by the clock step that was in force', async () => {
  const S = 1_000_000_000n;
  const rows: Row[] = [0n, 8n, 12n, 100n, 105n].map((at) => ({ at: START + at * S, duration: S, tid: 1 }));
  const clock = (bootNs: bigint, offsetNs: bigint, kind: 'start' | 'step') => ({
    ...{ bootNs, offsetNs: START + offsetNs, kind, suspendedNs: 0n },
  });
  const data = recorded(rows, (writer) => {
    writer.recordClock(clock(5n * S, -5n * S, 'start'));
    // The clock is set back by 3 s, 15 s after the boot, and forward by 88 s at 17 s.
    writer.recordClock(clock(15n * S, -8n * S, 'step'));
    writer.recordClock(clock(17n * S + 3n * S, 80n * S, 'step'));
    // The node has rebooted.
    writer.recordClock(clock(2n * S, 102n * S, 'start'));
  });
  const { slices, readings } = decoded((await exported(data, 'perfetto')).path);
  expect(slices.map(({ startNs, endNs }) => [startNs / S, (endNs - startNs) / S])).toEqual([
    [5n, 1n],
    [13n, 1n],
    [20n, 1n],
    [20n, 1n],
    [25n, 1n],
  ]);
  expect(readings.map(([wallNs, bootNs]) => [(wallNs! - START) / S, bootNs! / S])).toEqual([
    [0n, 5n],
    [7n, 15n],
    [100n, 20n],
    [104n, 24n],
  ]);
});

test('without a known clock the wall clock serves as both', async () => {
  const { readings } = decoded((await exported(recorded([{ at: START }]), 'perfetto')).path);
  expect(readings).toEqual([[START, START]]);
});

test('slices of one track never overlap, for any recording', async () => {
  const rows = Array.from(
    { length: 500 },
    (_, i): Row => ({
      ...(i % 3 === 0 ? { type: 'block_io', device: `sd${i % 2}` } : {}),
      at: START + BigInt((i * 7919) % 1000),
      duration: BigInt((i * 104_729) % 300),
      tid: i % 5,
    }),
  );
  const { slices } = decoded((await exported(recorded(rows), 'perfetto')).path);
  expect(slices).toHaveLength(rows.length);
  const total = slices.reduce((sum, { startNs, endNs }) => sum + endNs - startNs, 0n);
  expect(total).toBe(rows.reduce((sum, { duration }) => sum + duration!, 0n));
});

test('numbers of any size are encoded as varints that protoc reads', () => {
  const numbers = fc.array(fc.oneof(fc.bigInt({ min: -(2n ** 63n), max: U64_MAX }), fc.maxSafeInteger()), {
    minLength: 1,
    maxLength: 200,
  });
  fc.assert(
    fc.property(numbers, fc.string({ maxLength: 300 }), (values, text) => {
      const writer = createMessageWriter();
      for (const value of values) writer.writeInteger(1, value);
      writer.writeMessage(200, () => writer.writeText(3, text));
      const lines = readWith('protoc', ['--decode_raw'], writer.take()).split('\n');
      const read = lines.filter((line) => line.startsWith('1: ')).map((line) => BigInt(line.slice(3)));
      expect(read).toEqual(values.map((value) => BigInt.asUintN(64, BigInt(value))));
      expect(lines.filter((line) => line.startsWith('200'))).toHaveLength(1);
    }),
    { numRuns: 20 },
  );
});
