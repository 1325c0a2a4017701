/** Tests the kernel's monotonic counters, read as losses since the last reading. */
import type { BpfMap } from 'libbpf-ts';
import { createLossCounters, type LossCount } from '../../../agent/capture/recorder.ts';
import { contextDefinition, contextEnd, DEFINITIONS } from '../../../bpf/schema/definitions.ts';
import { EVENTS } from '../../../bpf/schema/index.ts';
import { KERNEL_LOSS_CAUSES, LOSS_CAUSES_MAX, LOSS_TYPES_MAX } from '../../../bpf/schema/losses.ts';

const { LOSS_RING_FULL, LOSS_NO_MEMORY, LOSS_END_MISSED } = KERNEL_LOSS_CAUSES;
const [sysWrite, blockIo] = EVENTS;

const COUNTERS = LOSS_TYPES_MAX * LOSS_CAUSES_MAX;
const CPUS = 3;

function setUp() {
  const lost = new BigUint64Array(CPUS * COUNTERS);
  const map = {
    valueBytes: lost.byteLength,
    get(_key: Uint8Array, into: Uint8Array) {
      into.set(new Uint8Array(lost.buffer));
      return into;
    },
  } as BpfMap;
  const counters = createLossCounters(map);
  return {
    counters,
    take: () => counters.take().losses,
    lose(type: number, cause: number, count: bigint, cpu = 0) {
      const at = cpu * COUNTERS + type * LOSS_CAUSES_MAX + cause;
      lost[at] = lost[at]! + count;
    },
  };
}

test('without a loss, nothing is reported', () => {
  expect(setUp().take()).toEqual([]);
});

test('a loss is reported once, as the difference since the last report', () => {
  const { take, lose } = setUp();
  lose(sysWrite.id, LOSS_RING_FULL, 5n);
  expect(take()).toMatchObject([{ cause: 'ring_full', eventType: 'sys_write', count: 5 }]);
  expect(take()).toEqual([]);
  lose(sysWrite.id, LOSS_RING_FULL, 2n);
  expect(take()).toMatchObject([{ cause: 'ring_full', eventType: 'sys_write', count: 2 }]);
});

test('the counts of all CPUs are one loss', () => {
  const { take, lose } = setUp();
  for (let cpu = 0; cpu < CPUS; cpu++) lose(sysWrite.id, LOSS_RING_FULL, 2n ** 32n + 1n, cpu);
  expect(take()).toMatchObject([{ cause: 'ring_full', eventType: 'sys_write', count: CPUS * (2 ** 32 + 1) }]);
  lose(sysWrite.id, LOSS_RING_FULL, 2n, CPUS - 1);
  expect(take()).toMatchObject([{ count: 2 }]);
});

test('types and causes are reported separately', () => {
  const { take, lose } = setUp();
  lose(blockIo.id, LOSS_NO_MEMORY, 3n);
  lose(blockIo.id, LOSS_END_MISSED, 6n);
  lose(sysWrite.id, LOSS_NO_MEMORY, 1n);
  lose(sysWrite.id, LOSS_RING_FULL, 2n);
  expect(take()).toMatchObject<LossCount[]>([
    { cause: 'ring_full', eventType: 'sys_write', count: 2 },
    { cause: 'no_memory', eventType: 'sys_write', count: 1 },
    { cause: 'no_memory', eventType: 'block_io', count: 3 },
    { cause: 'end_missed', eventType: 'block_io', count: 6 },
  ]);
});

test.each(DEFINITIONS.map(({ name, id }) => [name, id] as const))('events of any type can lack a lost %s', (_, id) => {
  const { take, lose } = setUp();
  lose(id, LOSS_RING_FULL, 4n);
  expect(take()).toEqual([{ cause: 'definition_lost', eventType: null, count: 4, recordType: id }]);
});

test('counters may exceed 32 bits', () => {
  const { take, lose } = setUp();
  lose(sysWrite.id, LOSS_RING_FULL, 2n ** 32n - 1n);
  expect(take()[0]!.count).toBe(2 ** 32 - 1);
  lose(sysWrite.id, LOSS_RING_FULL, 1n);
  expect(take()[0]!.count).toBe(1);
  lose(sysWrite.id, LOSS_RING_FULL, 2n ** 40n + 1n);
  expect(take()[0]!.count).toBe(2 ** 40 + 1);
});

test('the first and the last counter of the array are read', () => {
  const { take, lose } = setUp();
  lose(0, 0, 1n);
  lose(LOSS_TYPES_MAX - 1, LOSS_CAUSES_MAX - 1, 2n);
  lose(contextDefinition.id, 0, 3n);
  expect(take().map(({ count }) => count)).toEqual([1, 3, 2]);
});

test('lost ends of contexts are reported separately', () => {
  const { counters, lose } = setUp();
  lose(contextDefinition.id, LOSS_RING_FULL, 1n);
  expect(counters.take().contextEndsLost).toBe(false);
  lose(contextEnd.id, LOSS_RING_FULL, 1n);
  expect(counters.take().contextEndsLost).toBe(true);
  expect(counters.take().contextEndsLost).toBe(false);
});
