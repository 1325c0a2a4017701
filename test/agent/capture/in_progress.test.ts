/**
 * A kernel in which calls begin and end at random, and an agent that looks, drains and settles at any moment: whatever
 * began before a look is among the drained events or among what is in progress, and never in both.
 */
import fc from 'fast-check';
import { createInProgress, LISTED_MAX, RENEW_NS, YOUNG_NS } from '../../../agent/capture/in_progress.ts';
import type { UnendedRows } from '../../../agent/recording/write/batch.ts';
import { blockIo } from '../../../bpf/schema/block_io.ts';
import { CONTEXT_LOST } from '../../../bpf/schema/common.ts';
import { createDecoder } from '../../../bpf/schema/decoder.ts';
import { sysWrite } from '../../../bpf/schema/sys_write.ts';
import { framed, recordBytes } from '../../bpf/schema/records.ts';
import { times } from '../../repeats.ts';
import { createAttribution, OWN_PID } from '../attribution/attributed.ts';

const WALL_NS = 1_000_000_000_000n;

interface Call {
  tid: number;
  startNs: number;
  context_id?: number;
  process_id?: number;
}

const callRecord = ({ tid, startNs, context_id = 0, process_id = 0 }: Call) =>
  recordBytes(sysWrite, { tid, timestamp_ns: startNs, context_id, process_id, pid: 7, comm: 'dd' });

interface Request {
  startNs: number;
  sector: number;
  sectors: number;
  device: string;
  queueNs?: number;
}

const requestRecord = ({ startNs, sector, sectors, device, queueNs = 0 }: Request, durationNs = 0) =>
  recordBytes(blockIo, {
    timestamp_ns: startNs,
    duration_ns: durationNs,
    queue_ns: queueNs,
    sector,
    bytes: sectors * 512,
    device,
    tid: 1,
    origins: [],
  });

/** An agent's part that is tested, with real tables, on a kernel that the test makes. */
function newAgent() {
  const kernel = { calls: [] as Call[], bios: [] as Request[], requests: [] as Request[] };
  const passed: UnendedRows[] = [];
  const forgotten: number[] = [];
  let judged = 0;
  const attribution = createAttribution(WALL_NS);
  const inProgress = createInProgress({
    read: () => ({
      calls: framed(kernel.calls.map(callRecord)),
      bios: framed(kernel.bios.map((one) => requestRecord(one))),
      requests: framed(kernel.requests.map((one) => requestRecord(one))),
    }),
    createBlockResolver: attribution.resolverOf,
    accept: () => ++judged > 0,
    isOwn: (words, offset) => attribution.resolver.isOwn(words, offset),
    forgetBios: (beforeNs) => forgotten.push(beforeNs),
    toWallNs: (bootNs) => BigInt(bootNs) + WALL_NS,
    pass: (unended) => passed.push(unended),
  });
  const decoder = createDecoder();
  return {
    kernel,
    attribution,
    passed,
    forgotten,
    ...inProgress,
    /** How often a call or request was judged whether it is to be kept. */
    judgedCount: () => judged,
    drain(records: readonly Uint8Array[]) {
      const frames = framed(records);
      decoder.decode(frames, 0, frames.length, () => true);
      inProgress.forgetEnded(new Uint32Array(frames.buffer), decoder.decoded);
    },
    /** The starts of what was passed last. */
    listed(): number[] {
      const { block } = passed.at(-1) ?? {};
      return Array.from((block?.columns.get('timestamp_ns') ?? []) as BigUint64Array, (ns) => Number(ns - WALL_NS));
    },
  };
}

const step = fc.oneof(
  { weight: 6, arbitrary: fc.record({ does: fc.constant('call' as const), tid: fc.integer({ min: 1, max: 5 }) }) },
  { weight: 2, arbitrary: fc.record({ does: fc.constant('turn' as const), part: fc.integer({ min: 0, max: 4 }) }) },
);

test('what began before a look is drained or in progress, whenever calls begin and end', () => {
  let listed = 0;
  fc.assert(
    fc.property(fc.array(step, { minLength: 10, maxLength: 60 }), (steps) => {
      const agent = newAgent();
      const ring: Call[] = [];
      const drained = new Set<number>();
      let nowNs = 10 * YOUNG_NS;
      let waiting: { snapshotNs: number; left: number } | undefined;
      let completeNs = 0;
      const begun: number[] = [];
      for (const one of steps) {
        nowNs += YOUNG_NS;
        if (one.does === 'call') {
          const { calls } = agent.kernel;
          const at = calls.findIndex(({ tid }) => tid === one.tid);
          if (at < 0) {
            calls.push({ tid: one.tid, startNs: nowNs });
            begun.push(nowNs);
          } else ring.push(...calls.splice(at, 1));
          continue;
        }
        if (!waiting) {
          agent.takeSnapshot(nowNs);
          waiting = { snapshotNs: nowNs - YOUNG_NS, left: ring.length };
        }
        // A turn may take a part of what the ring holds.
        const some = ring.splice(0, one.part);
        agent.drain(some.map(callRecord));
        for (const { startNs } of some) drained.add(startNs);
        waiting.left -= one.part;
        const isDrained = waiting.left <= 0;
        agent.settle(isDrained);
        if (isDrained) {
          completeNs = waiting.snapshotNs;
          waiting = undefined;
        }
        const shown = agent.listed();
        listed += shown.length;
        expect(shown.filter((startNs) => drained.has(startNs))).toEqual([]);
        const missing = begun.filter((startNs) => startNs <= completeNs && !drained.has(startNs));
        expect(missing.filter((startNs) => !shown.includes(startNs))).toEqual([]);
      }
    }),
    { numRuns: times(300) },
  );
  expect(listed).toBeGreaterThan(100);
});

const at = (startNs: number, sector: number, sectors: number, device = 'sda') => ({ startNs, sector, sectors, device });

test('a request ends what has become of it, on its device only', () => {
  const agent = newAgent();
  const { kernel } = agent;
  const nowNs = YOUNG_NS + 100;
  kernel.bios = [at(11, 100, 8), at(12, 108, 8), at(13, 108, 8, 'sdb'), at(9, 104, 4), at(14, 116, 8)];
  // It was issued between the two reads, and the bio with it; the other one long before.
  kernel.requests = [{ ...at(14, 116, 8), queueNs: nowNs }, at(20, 104, 4)];
  agent.takeSnapshot(nowNs);
  agent.settle(true);
  expect(agent.listed()).toEqual([9, 11, 12, 13, 14, 20]);
  agent.drain([requestRecord(at(11, 100, 16), 5)]);
  agent.settle(false);
  expect(agent.listed()).toEqual([9, 13, 14, 20]);
  agent.drain([requestRecord(at(20, 104, 4), 5), requestRecord(at(14, 116, 8, 'sdaa'), 5)]);
  agent.settle(false);
  expect(agent.listed()).toEqual([9, 13, 14]);
});

test('the end of a request is not that of a later one of the same sectors, nor of another flush', () => {
  const agent = newAgent();
  agent.kernel.requests = [at(30, 100, 8), at(31, 0, 0), at(32, 0, 0)];
  agent.kernel.bios = [at(29, 100, 8), at(33, 0, 0)];
  agent.takeSnapshot(YOUNG_NS + 100);
  agent.drain([requestRecord(at(10, 100, 8), 5), requestRecord(at(31, 0, 0), 50)]);
  agent.settle(true);
  expect(agent.listed()).toEqual([29, 30, 32, 33]);
});

test('what is shorter than the filter asks for is counted after a second, without names', () => {
  const agent = newAgent();
  agent.kernel.calls = [1, 2, 3].map((tid) => ({ tid, startNs: tid * 1e9 }));
  expect(agent.takeSnapshot(3.5e9, 2.2e9)).toEqual({ found: 2, foundNs: 1e9 });
  agent.settle(true);
  expect(agent.listed()).toEqual([1e9]);
  expect(agent.passed.at(-1)!.unlisted).toEqual({ count: 1, labelled: 0, sinceNs: WALL_NS + 2_000_000_000n });
  expect(agent.takeSnapshot(3.5e9, 3e8)).toEqual({ found: 3, foundNs: 3e8 });
});

test('a bio that no request has taken for ten minutes is lost, and a young call is not there yet', () => {
  const agent = newAgent();
  agent.kernel.bios = [{ startNs: 0, sector: 1, sectors: 8, device: 'sda' }];
  agent.kernel.calls = [{ tid: 1, startNs: 599e9 }];
  for (const [nowNs, listed] of [
    [599e9, [0]],
    [599e9 + YOUNG_NS, [0, 599e9]],
    [601e9, [599e9]],
  ] as const) {
    agent.takeSnapshot(nowNs);
    agent.settle(true);
    expect(agent.listed()).toEqual(listed);
  }
  expect(agent.forgotten).toEqual([1e9]);
});

test('labelled calls and requests are listed before others, and the rest is counted', () => {
  const agent = newAgent();
  const count = LISTED_MAX + 10;
  agent.attribution.marker(256, 'txn=order-1');
  agent.kernel.calls = Array.from({ length: count }, (_, i) => ({
    tid: i + 1,
    startNs: i,
    context_id: i >= count - 5 ? 256 : 0,
  }));
  agent.kernel.requests = [{ startNs: count, sector: 0, sectors: 8, device: 'sda' }];
  agent.takeSnapshot(count + YOUNG_NS);
  agent.settle(true);
  expect(agent.listed().slice(0, 8)).toEqual([...[5, 4, 3, 2, 1].map((back) => count - back), count, 0, 1]);
  expect(agent.passed.at(-1)!.unlisted).toEqual({ count: 11, labelled: 0, sinceNs: WALL_NS + BigInt(LISTED_MAX - 6) });
});

test('names are resolved again after a while, and nothing is passed on while nothing changes', () => {
  const agent = newAgent();
  agent.attribution.marker(256, 'txn=order-1');
  agent.kernel.calls = [{ tid: 1, startNs: 5, context_id: 256 }];
  const lookAt = (nowNs: number) => {
    agent.takeSnapshot(nowNs);
    agent.settle(true);
    return agent.passed.length;
  };
  expect([YOUNG_NS, YOUNG_NS + 1, RENEW_NS, RENEW_NS + YOUNG_NS + 5].map((ns) => lookAt(ns + 5))).toEqual([1, 1, 1, 2]);
  agent.kernel.calls = [];
  expect([2, 3, 9].map((minutes) => lookAt(minutes * RENEW_NS))).toEqual([3, 3, 3]);
  expect(agent.listed()).toEqual([]);
});

test('while nothing that was found has ended, a turn of a flood does not go through it again', () => {
  const agent = newAgent();
  agent.kernel.calls = Array.from({ length: 300 }, (_, i) => ({ tid: i + 1, startNs: i + 1 }));
  agent.takeSnapshot(YOUNG_NS + 300);
  agent.settle(true);
  const before = agent.judgedCount();
  for (let turn = 0; turn < 50; turn++) {
    // The low bits of the start are those of a call that was found, and the thread is another.
    agent.drain([callRecord({ tid: 1000, startNs: 7 }), callRecord({ tid: 7, startNs: 7 + YOUNG_NS })]);
    agent.settle(false);
  }
  expect(agent.judgedCount()).toBe(before);
  agent.drain([callRecord({ tid: 7, startNs: 7 })]);
  agent.settle(false);
  expect(agent.judgedCount()).toBe(before + 299);
});

test('a call in progress keeps its owner, however many others are defined meanwhile', () => {
  const agent = newAgent();
  const { contexts, marker } = agent.attribution;
  marker(256, 'txn=order-1');
  agent.kernel.calls = [{ tid: 1, startNs: 5, context_id: 256 }];
  for (let second = 1; second <= 20; second++) {
    agent.takeSnapshot(second * 1e9);
    agent.settle(true);
    for (let other = 0; other < 10_000; other++) marker(1000 + second * 10_000 + other, `txn=other-${other}`);
  }
  expect(agent.listed()).toEqual([5]);
  expect(agent.passed).toHaveLength(1);
  expect(contexts.findOwner(256, 0, 5)?.ids?.transactionId).toBe('order-1');
  expect(contexts.takeLost().size).toBe(0);
});

test.each([
  ['was forgotten', 256],
  ['is not described yet', CONTEXT_LOST],
])("a call whose owner %s may be anyone's: it is counted as labelled, and loses nothing until it ends", (_, id) => {
  const agent = newAgent();
  agent.kernel.calls = [
    { tid: 1, startNs: 5, context_id: id },
    { tid: 2, startNs: 6 },
  ];
  for (const nowNs of [1e9, 1e9 + RENEW_NS]) {
    agent.takeSnapshot(nowNs);
    agent.settle(true);
  }
  expect(agent.listed()).toEqual([6]);
  expect(agent.passed.at(-1)!.unlisted).toEqual({ count: 1, labelled: 1, sinceNs: WALL_NS + 5n });
  expect(agent.attribution.contexts.takeLost().size).toBe(0);
});

test('what the recorder itself does is in no count', () => {
  const agent = newAgent();
  agent.attribution.program(512, '/usr/bin/kreplay', OWN_PID);
  agent.kernel.calls = [{ tid: 1, startNs: 1e9, process_id: 512 }];
  agent.takeSnapshot(3.5e9, 10e9);
  agent.settle(true);
  expect(agent.listed()).toEqual([]);
  expect(agent.passed.at(-1)!.unlisted.count).toBe(0);
});
