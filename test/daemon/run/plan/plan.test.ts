/** Tests the path from recorded events to the plan against a plan made in a simple way. */
import fc from 'fast-check';
import { stringify } from '../../../../daemon/base/exact_json.ts';
import { EVENT_FLAGS, OPS, PATH_KINDS, PLAN_FLAGS, SIZE_UNKNOWN } from '../../../../daemon/run/format/plan_file.ts';
import { encodePlan } from '../../../../daemon/run/plan/encode.ts';
import { addLine } from '../../../../daemon/run/plan/from_lines.ts';
import { createIncident } from '../../../../daemon/run/plan/incident.ts';
import { parseFailRule, parseInjectRule } from '../../../../daemon/run/plan/rules.ts';
import { type BlockRow, type Row, recorded, START, type SyncRow, type WriteRow } from '../../recorded.ts';
import { served } from '../../served.ts';
import { decodePlan, incidentIn, incidentOf, planOf, TRANSACTION } from '../planned.ts';

const MS = 1_000_000n;

const write = (at: bigint, duration: bigint, more: Partial<WriteRow> = {}): WriteRow => {
  return { at: START + at, duration, file: '/data/a', requested: 64n, fd: 5, ...more };
};
const request = (at: bigint, duration: bigint, more: Partial<BlockRow> = {}): BlockRow => {
  return { type: 'block_io', at: START + at, duration, ...more };
};

const sync = (at: bigint, duration: bigint, more: Partial<SyncRow> = {}): SyncRow => {
  return { type: 'sys_sync', at: START + at, duration, file: '/data/a', ...more };
};

const anyWrite = fc.record({
  at: fc.bigInt(0n, 1000n).map((offset) => START + offset),
  duration: fc.bigInt(0n, 10n * MS),
  tid: fc.nat(3),
  comm: fc.constantFrom('a', 'b'),
  service: fc.constantFrom('shop', 'db'),
  file: fc.constantFrom('/data/a', '/data/b', '/data/ü'),
  fileKind: fc.constantFrom('regular' as const, 'socket' as const),
  syscall: fc.constantFrom('write' as const, 'pwritev' as const),
  requested: fc.option(fc.bigInt(0n, 2n ** 40n), { nil: undefined }),
  fd: fc.constantFrom(1, 7),
});

/** A plan as lists of texts and numbers, made by linear search. */
function simplePlan(rows: readonly WriteRow[]) {
  const sorted = rows.filter(({ fd, fileKind }) => fd! > 2 || fileKind === 'regular');
  const keyOf = ({ syscall, file, fileKind, comm, service }: WriteRow) =>
    stringify([OPS[syscall!], file, PATH_KINDS[fileKind as 'regular'], comm, service]);
  const keys = [...new Set(sorted.map(keyOf))];
  return keys.map((key) => {
    const ofStream = sorted.filter((row) => keyOf(row) === key);
    const tids = [...new Set(ofStream.map(({ tid }) => tid))];
    return {
      key,
      slots: tids.map((tid) => ({ tid, events: ofStream.filter((row) => row.tid === tid).map(simpleEvent) })),
    };
  });
}

function simpleEvent({ at, duration, requested }: WriteRow) {
  const size = requested === undefined ? SIZE_UNKNOWN : Math.min(Number(requested), SIZE_UNKNOWN - 1);
  return { offset: at, target_ns: duration, size };
}

test('streams, slots and events agree with the simple algorithm', () => {
  fc.assert(
    fc.property(fc.array(anyWrite, { minLength: 1, maxLength: 40 }), (unsorted) => {
      const rows = unsorted.toSorted((one, other) => Number(one.at - other.at));
      const plan = planOf(incidentOf(rows as Row[]));
      const { streams, slots, events } = decodePlan(encodePlan(plan));
      const decoded = streams.map(({ op, path, path_kind, comm, service, first_slot, slot_count }) => ({
        key: stringify([op, path, path_kind, comm, service]),
        slots: slots.slice(first_slot, first_slot + slot_count).map((slot) => ({
          tid: slot.tid,
          events: events
            .slice(slot.first_event, slot.first_event + slot.event_count)
            .map(({ offset_ns, target_ns, size }) => ({ offset: rows[0]!.at + offset_ns, target_ns, size })),
        })),
      }));
      expect(decoded).toEqual(simplePlan(rows as WriteRow[]));
      expect(plan.flags).toBe(
        rows.some((row) => row.fd < 3 && row.fileKind === 'regular') ? PLAN_FLAGS.standard_fds : 0,
      );
    }),
    { numRuns: 40 },
  );
});

test('the file contains the position of everything, in multiples of 8, and which calls are planned', () => {
  const { header } = decodePlan(
    encodePlan(planOf(incidentOf([write(0n, MS), request(5n * MS, MS)]), { seed: 2n ** 64n - 1n })),
  );
  expect(header).toMatchObject({ seed: 2n ** 64n - 1n, stream_count: 2, slot_count: 2, event_count: 2 });
  expect(header.syscall_mask).toBe(0b11111111111);
  for (const at of [header.streams_at, header.slots_at, header.events_at, header.strings_at, header.file_bytes])
    expect(at % 8n).toBe(0n);
  expect(decodePlan(encodePlan(planOf(incidentOf([write(0n, MS)])))).header.syscall_mask).toBe(0b11111);
});

test('targets are recorded durations, scaled, with extra latency and the additions of rules', () => {
  const incident = incidentOf([write(0n, 10n * MS), write(20n * MS, 4n * MS, { service: 'db' })]);
  const inject = ['sys_write:service=db:extra=10ms', 'sys_write:factor=3'].map(parseInjectRule);
  const { events } = planOf(incident, { speed: 2, extraLatencyNs: 1_000_000, inject });
  expect([...events.target_ns]).toEqual([16_000_000, 17_000_000]);
  expect([...events.offset_ns]).toEqual([0, 10_000_000]);
  expect(Array.from(events.flags as Uint16Array)).toEqual([0, EVENT_FLAGS.ruled_by_thread]);
});

test('no call takes longer than an hour', () => {
  const incident = incidentOf([write(0n, 1n << 62n)]);
  expect([...planOf(incident).events.target_ns]).toEqual([3_600_000_000_000]);
});

test('the nth call fails in recorded order, over all threads and files', () => {
  const rows = [1, 2, 1, 3, 2].map((tid, at) => write(BigInt(at) * MS, MS, { tid, file: `/data/${tid}` }));
  const plan = planOf(incidentOf(rows), { fail: [parseFailRule('sys_write:ENOSPC:nth=3')] });
  const failed = Array.from(plan.events.error as Uint16Array).map((error, at) => [error, plan.events.offset_ns[at]]);
  expect(failed.filter(([error]) => error !== 0)).toEqual([[28, 2_000_000]]);
});

test('every call that a rule selects fails when it names none', () => {
  const rows = [write(0n, MS), write(MS, MS, { file: '/tmp/x' }), write(2n * MS, MS)];
  const plan = planOf(incidentOf(rows), { fail: [parseFailRule('sys_write:EIO:path=/data/*')] });
  expect(Array.from(plan.events.error as Uint16Array)).toEqual([5, 5, 0]);
});

describe('block requests', () => {
  const syncs = (rows: readonly Row[]) => {
    const incident = incidentOf(rows);
    const { streams, events } = decodePlan(encodePlan(planOf(incident)));
    const derived = events.filter(({ flags }) => flags & EVENT_FLAGS.derived);
    return {
      syncs: derived.map(({ offset_ns, target_ns }) => [offset_ns / MS, target_ns / MS]),
      streams: streams.filter(({ op }) => op === OPS.fsync).map(({ path, path_kind, comm }) => [path, path_kind, comm]),
      left: incident.notReplayable,
    };
  };
  const jbd2 = { tid: 7, comm: 'jbd2/vda1-8' };

  test('a burst of the thread and of the journal after it is one sync of the file that the thread wrote', () => {
    const rows = [
      write(0n, MS),
      request(5n * MS, 2n * MS),
      request(5n * MS + 10n, 3n * MS),
      request(8n * MS, 4n * MS, jbd2),
      request(12n * MS, MS, { ...jbd2, operation: 'flush' }),
      write(20n * MS, MS),
      request(30n * MS, MS),
    ];
    const found = syncs(rows);
    expect(found.syncs).toEqual([
      [5n, 8n],
      [30n, 1n],
    ]);
    expect(found.streams).toEqual([['/data/a', PATH_KINDS.regular, 'node']]);
    expect(found.left).toEqual({
      background: 0,
      reads: 0,
      within_calls: 0,
      outside_calls: 0,
      standard_streams: 0,
      no_file: 0,
    });
  });

  test("requests that delayed no thread are left out and counted: writeback, the journal's own, reads, requests within a write", () => {
    const rows = [
      write(0n, 10n * MS),
      request(5n * MS, 2n * MS),
      request(20n * MS, MS, { tid: 8, comm: 'kworker/u4:1' }),
      request(30n * MS, MS, jbd2),
      request(40n * MS, MS, { operation: 'read' }),
    ];
    const found = syncs(rows);
    expect([found.syncs, found.left]).toEqual([
      [],
      { background: 2, reads: 1, within_calls: 1, outside_calls: 0, standard_streams: 0, no_file: 0 },
    ]);
  });

  test('threads that wait for one commit wait until its end, each from its own start', () => {
    const rows = [
      request(0n, 2n * MS, { tid: 1 }),
      request(MS, 2n * MS, { tid: 2 }),
      request(3n * MS, 5n * MS, jbd2),
      request(9n * MS - 1n, 5n * MS, { ...jbd2, device: 'sdb' }),
    ];
    expect(syncs(rows).syncs).toEqual([
      [0n, 8n],
      [1n, 7n],
    ]);
  });

  test('a sync belongs to the file that the thread wrote last before it, or else to the last one that any thread wrote', () => {
    const rows = [
      write(0n, MS, { file: '/a', tid: 1 }),
      request(2n * MS, MS, { tid: 1 }),
      write(4n * MS, MS, { file: '/b', tid: 1 }),
      write(5n * MS, MS, { file: '/c', tid: 2 }),
      write(6n * MS, MS, { file: '/log', tid: 2, fileKind: 'pipe' }),
      request(7n * MS, MS, { tid: 1 }),
      request(8n * MS, MS, { tid: 3, comm: 'sync' }),
      write(10n * MS, MS, { file: '/d', tid: 1 }),
    ];
    expect(syncs(rows).streams).toEqual([
      ['/a', PATH_KINDS.regular, 'node'],
      ['/b', PATH_KINDS.regular, 'node'],
      ['/c', PATH_KINDS.regular, 'sync'],
    ]);
  });

  test('a pause ends a burst', () => {
    const rows = [request(0n, MS), request(2n * MS, MS), request(5n * MS, MS)];
    expect(syncs(rows).syncs).toEqual([
      [0n, 3n],
      [5n, 1n],
    ]);
  });
});

describe('recorded syncs', () => {
  const jbd2 = { tid: 7, comm: 'jbd2/vda1-8' };
  const callsOf = (rows: readonly Row[]) => {
    const incident = incidentOf(rows);
    const { streams, slots, events } = decodePlan(encodePlan(planOf(incident)));
    const calls = streams.flatMap((stream) => {
      const own = slots.slice(stream.first_slot, stream.first_slot + stream.slot_count);
      return own.flatMap(({ first_event, event_count }) =>
        events
          .slice(first_event, first_event + event_count)
          .map(({ target_ns, flags }) => [stream.op, stream.path, target_ns / MS, flags]),
      );
    });
    return { calls, left: incident.notReplayable };
  };

  test('keep their own duration; their requests, and those of the journal, are not planned again', () => {
    const found = callsOf([
      write(0n, MS),
      sync(5n * MS, 90n * MS),
      request(6n * MS, 2n * MS),
      request(9n * MS, 4n * MS, jbd2),
      request(80n * MS, MS, { ...jbd2, operation: 'flush' }),
      sync(100n * MS, 3n * MS, { file: '/data/b', syscall: 'fdatasync' }),
    ]);
    expect(found.calls).toEqual([
      [OPS.write, '/data/a', 1n, 0],
      [OPS.fsync, '/data/a', 90n, 0],
      [OPS.fdatasync, '/data/b', 3n, 0],
    ]);
    expect(found.left).toEqual({
      background: 0,
      reads: 0,
      within_calls: 3,
      outside_calls: 0,
      standard_streams: 0,
      no_file: 0,
    });
  });

  test('if recorded, are not derived from other requests of a thread', () => {
    const rows = [
      request(0n, MS),
      request(MS, MS),
      sync(20n * MS, MS),
      request(50n * MS, MS),
      request(60n * MS, MS, jbd2),
    ];
    const found = callsOf(rows);
    expect(found.calls).toEqual([[OPS.fsync, '/data/a', 1n, 0]]);
    expect(found.left).toMatchObject({ outside_calls: 3, background: 1 });
  });

  test('of the whole machine, and of mapped memory, have no file', () => {
    const { file: _, ...none } = sync(0n, MS);
    const found = callsOf([
      { ...none, fd: -1, syscall: 'sync' },
      { ...none, fd: -1, syscall: 'msync', at: START + 5n * MS },
    ]);
    expect(found.calls).toEqual([
      [OPS.sync, '', 1n, 0],
      [OPS.msync, '', 1n, 0],
    ]);
  });

  test('get the additions of rules', () => {
    const incident = incidentOf([write(0n, MS), sync(5n * MS, MS), sync(9n * MS, MS, { syscall: 'syncfs' })]);
    const inject = ['sys_sync:syscall=syncfs:extra=5ms', 'sys_sync:factor=2'].map(parseInjectRule);
    const { events } = planOf(incident, { inject, fail: [parseFailRule('sys_sync:EIO:nth=2')] });
    expect([...events.target_ns]).toEqual([1_000_000, 2_000_000, 7_000_000]);
    expect(Array.from(events.error as Uint16Array)).toEqual([0, 0, 5]);
  });
});

test('writes to a terminal or a log pipe are left out and counted', () => {
  const incident = incidentOf([
    write(0n, MS, { fd: 1, fileKind: 'pipe' }),
    write(1n, MS, { fd: 2, fileKind: 'regular' }),
    write(2n, MS, { fd: 1, fileKind: 'character_device', file: '/dev/pts/1' }),
    write(3n, MS, { fd: 1, fileKind: 'block_device', file: '/dev/vdb' }),
  ]);
  expect(incident.notReplayable.standard_streams).toBe(2);
  expect(incident.calls.count).toBe(2);
  expect(incident.usesStandardFds).toBe(true);
});

test('the lines of a daemon give the same plan as the file, with times beyond a double', async () => {
  const odd = { file: '/data/"timestamp_ns":1,x', comm: 'ü"\\' };
  const rows: Row[] = [
    { at: START + 1n, duration: 10n * MS + 1n, fd: 5, ...odd },
    write(20n * MS, MS, { result: -28n, tid: 5 }),
    request(30n * MS + 1n, MS),
    sync(40n * MS, 7n, { fd: 5, syscall: 'sync_file_range' }),
    { type: 'sys_sync', at: START + 50n * MS, fd: -1, syscall: 'msync' },
  ];
  const folder = recorded(rows.map((row) => ({ transaction: TRANSACTION, ...row })));
  const app = await served(folder);
  const incident = createIncident();
  for (const line of await app.lines(`/api/events?transaction_id=${TRANSACTION}`)) addLine(incident, line);
  expect(encodePlan(planOf(incident.finish()))).toEqual(encodePlan(planOf(incidentIn(folder))));
});

test.each([
  ['invalid JSON', '{"timestamp_ns":1,'],
  ['not an object', '7'],
  ['without a time', '{"event_type":"sys_write"}'],
  ['not a number', '{"timestamp_ns":1,"node":"n","tid":"1","comm":"","service_name":"","duration_ns":1}'],
  [
    'another call',
    '{"timestamp_ns":1,"node":"n","tid":1,"comm":"","service_name":"","duration_ns":1,"event_type":"sys_write","syscall":"toString"}',
  ],
])('a line that is not an event is refused: %s', (_, line) => {
  expect(() => addLine(createIncident(), line)).toThrow('a line that is not an event');
});

test('events that are not in the order of their times are refused', () => {
  const incident = createIncident();
  const event = { node: 'n', tid: 1, comm: '', service: '', device: 'sda', operation: 'read', durationNs: 1 };
  incident.addRequest({ ...event, startNs: 5n });
  expect(() => incident.addRequest({ ...event, startNs: 4n })).toThrow('not in the order of their times');
});
