/** When the page expects events of a replay: against the time line of the daemon. */
import fc from 'fast-check';
import { createColumnsBuilder } from '../../daemon/model/columns/builder.ts';
import { getEventId } from '../../daemon/model/columns/event_columns.ts';
import { createLanes } from '../../daemon/model/lanes/model.ts';
import { collectChoices } from '../../daemon/page/lanes/choices.ts';
import { computeSchedule } from '../../daemon/page/replay/schedule.ts';
import { findPlayedPlace } from '../../daemon/page/views/use_played.ts';
import { openRecordingStore } from '../../daemon/store/embedded/recording_store.ts';
import { type Row, recordedOn, recordingPath, START } from '../daemon/recorded.ts';
import { type Served, served } from '../daemon/served.ts';
import { times } from '../repeats.ts';

type NodeRow = Row & { node: string };

const planned = fc.record({
  gapNs: fc.constantFrom(0, 0, 3, 500, 4000),
  durationNs: fc.constantFrom(0n, 1n, 700n, 5000n),
  tid: fc.constantFrom(8, 9),
  node: fc.constantFrom('n1', 'n2'),
  service: fc.constantFrom('web', 'db'),
  transaction: fc.constantFrom('order-1', 'order-1', 'other'),
  kind: fc.constantFrom('write' as const, 'sync' as const, 'request' as const, 'written_back' as const),
});
const rowsOf = fc.array(planned, { minLength: 1, maxLength: 40 }).map((all) => {
  let at = START - 1_000_000_000n;
  return all.map(({ gapNs, durationNs, kind, transaction, ...common }): NodeRow => {
    at += BigInt(gapNs);
    const row = { ...common, at, duration: durationNs, comm: `${common.service}-${durationNs}` };
    if (kind === 'write') return { ...row, transaction };
    if (kind === 'sync') return { ...row, type: 'sys_sync', transaction, result: 0n };
    if (kind === 'request') return { ...row, type: 'block_io', transaction };
    return { ...row, type: 'block_io', transaction, source: 'origin', origins: [{ transaction, bytes: 512n }] };
  });
});
const settings = fc.record({
  extra_latency_ns: fc.constantFrom(0, 1, 600, 10_000),
  max_gap_ns: fc.constantFrom(null, 0, 100, 3000),
  offset: fc.constantFrom(0, 2000, -2000),
  only: fc.record(
    {
      event_type: fc.constantFrom(['sys_write'], ['block_io'], ['sys_sync', 'block_io']),
      service: fc.constantFrom(['web'], ['none']),
      node: fc.constantFrom(['n1'], ['n2', 'n1']),
    },
    { requiredKeys: [] },
  ),
});

async function modelOf({ get }: Served, clockOffsetsNs: ReadonlyMap<string, bigint>) {
  const accept = 'application/vnd.kreplay.columns';
  const builder = createColumnsBuilder();
  const { text } = await get('/api/events?transaction_id=order-1', { headers: { accept } });
  for (const line of text.split('\n').slice(0, -1)) builder.add(line);
  return createLanes(builder.finish(), { transactions: new Set(['order-1']), clockOffsetsNs });
}

async function asked(daemon: Served, body: object) {
  const headers = { 'content-type': 'application/json' };
  const text = JSON.stringify({ transaction_id: 'order-1', ...body });
  const { status, json } = await daemon.get('/api/replay/sessions', { method: 'POST', headers, body: text });
  expect(status).toBe(201);
  const path = `/api/replay/sessions/${json.session_id}`;
  const events = (await daemon.lines(`${path}/timeline`)).map((line) => JSON.parse(line));
  return { events, session: (await daemon.get(path)).json };
}

test('every event is where the time line of a session has it, with what is skipped', async () => {
  await fc.assert(
    fc.asyncProperty(rowsOf, fc.array(settings, { minLength: 4, maxLength: 4 }), async (rows, several) => {
      fc.pre(rows.some(({ transaction, type }) => transaction === 'order-1' && type !== 'block_io'));
      const folders = [...Map.groupBy(rows, ({ node }) => node)].map(([node, own]) => recordedOn(node, own));
      const daemon = await served(openRecordingStore(undefined, folders.map(recordingPath)));
      const nodes = (await daemon.get('/api/nodes')).json.nodes as string[];
      for (const { offset, ...given } of several) {
        const offsets = new Map(nodes.filter((node) => node === 'n2').map((node) => [node, offset]));
        const exact = new Map(Array.from(offsets, ([node, ns]) => [node, BigInt(ns)] as const));
        const model = await modelOf(daemon, exact);
        const clock_offsets_ns = Object.fromEntries(offsets);
        const { events, session } = await asked(daemon, { ...given, clock_offsets_ns });
        const of = { latencyNs: given.extra_latency_ns, only: given.only };
        const schedule = computeSchedule(model, { ...of, maxGapNs: given.max_gap_ns });
        expect(Array.from(schedule.rows, (row) => getEventId(model.columns, row))).toEqual(
          events.map(({ event_id }) => event_id),
        );
        expect([...schedule.starts]).toEqual(events.map(({ replay_offset_ns }) => replay_offset_ns));
        const whole = await asked(daemon, { ...given, clock_offsets_ns, max_gap_ns: null });
        expect(whole.session.replay_end_ns - session.replay_end_ns).toBe(schedule.cutNs);
        expect(schedule.cutCount > 0).toBe(schedule.cutNs > 0);
      }
      await daemon.close();
    }),
    { numRuns: times(8) },
  );
});

test('at a position the last event that starts at or before it is played', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(50)), fc.double({ min: 0, max: 60, noNaN: true }), (gaps, positionNs) => {
      let startNs = 0;
      const starts = Float64Array.from(gaps, (gap) => {
        startNs += gap;
        return startNs;
      });
      const schedule = { rows: Uint32Array.from(gaps.keys(), (at) => at + 7), starts, cutCount: 0, cutNs: 0 };
      const at = starts.findLastIndex((start) => start <= positionNs);
      expect(findPlayedPlace(schedule, positionNs)).toEqual(
        at < 0 ? { row: -1, offsetNs: 0 } : { row: at + 7, offsetNs: starts[at] },
      );
    }),
  );
});

test('a latency can be narrowed to what the transaction has, not to what is in its way', async () => {
  const at = START - 1000n;
  const folder = recordedOn('n1', [
    { at, service: 'shop', transaction: 'order-1' },
    { at: at + 1n, service: '__proto__', transaction: 'order-1', type: 'sys_sync', result: 0n },
    { at: at + 2n, service: 'backup', transaction: 'other', type: 'block_io' },
  ]);
  const model = await modelOf(await served(folder), new Map());
  expect(collectChoices(model)).toEqual({
    types: ['sys_write', 'sys_sync'],
    services: ['shop', '__proto__'],
    nodes: ['n1'],
  });
});
