/**
 * Pins the ids and names that are stored in recordings and sent to clients: each is unique, and none changes by
 * accident. A new field needs a new line here; a changed or removed line breaks existing recordings.
 */
import { createBlock, createColumnArray, typeRows } from '../../../bpf/schema/block.ts';
import { BLOCK_OPERATIONS } from '../../../bpf/schema/block_io.ts';
import { COLUMNS } from '../../../bpf/schema/columns.ts';
import { CONTEXT_FLAGS, CONTEXT_LOST } from '../../../bpf/schema/common.ts';
import { DEFINITIONS, FILE_FLAGS } from '../../../bpf/schema/definitions.ts';
import { EVENT_TYPES, EVENTS, findEventDefinition } from '../../../bpf/schema/index.ts';
import {
  KERNEL_LOSS_CAUSES,
  KERNEL_LOSS_WORDS,
  LOSS_CAUSES,
  LOSS_CAUSES_MAX,
  LOSS_TYPES_MAX,
} from '../../../bpf/schema/losses.ts';
import { ATTRIBUTION_QUALITIES, ATTRIBUTION_SOURCES, FILE_KINDS } from '../../../bpf/schema/owner.ts';
import { SYNC_SYSCALLS } from '../../../bpf/schema/sys_sync.ts';
import { WRITE_SYSCALLS } from '../../../bpf/schema/sys_write.ts';

const RECORDS = [...EVENTS, ...DEFINITIONS];

function expectUnique(values: readonly unknown[]): void {
  expect(new Set(values).size).toBe(values.length);
}

test('ids of records are unique, not zero, and have a row in the loss counters', () => {
  expectUnique(RECORDS.map(({ id }) => id));
  expectUnique(RECORDS.map(({ name }) => name));
  for (const { id } of RECORDS) {
    expect(id).toBeGreaterThan(0);
    expect(id).toBeLessThan(LOSS_TYPES_MAX);
  }
});

test('ids of records do not change', () => {
  expect(Object.fromEntries(RECORDS.map(({ name, id }) => [name, id]))).toEqual({
    sys_write: 1,
    block_io: 2,
    sys_sync: 3,
    context_definition: 64,
    context_end: 65,
    process_definition: 66,
    program_definition: 68,
    file_definition: 67,
    cgroup_definition: 69,
  });
});

test('columns keep their names, their storage and the type that owns them', () => {
  const origin = (slot: number) => [
    `block_io.origins_${slot}_service u32`,
    `block_io.origins_${slot}_context u32`,
    `block_io.origins_${slot}_bytes u64`,
  ];
  expectUnique(COLUMNS.map(({ name }) => name));
  expect(COLUMNS.map(({ name, storage }) => `${name} ${storage}`)).toEqual([
    'event_type u8',
    'cpu u16',
    'timestamp_ns u64',
    'duration_ns u64',
    'context u32',
    'context_source u8',
    'context_quality u8',
    'service u32',
    'pid u32',
    'tid u32',
    'comm u32',
    'result i64',
    'sys_write.file u32',
    'sys_write.bytes_requested u64',
    'sys_write.fd i32',
    'sys_write.syscall u16',
    'block_io.sector u64',
    'block_io.bytes u64',
    'block_io.queue_ns u64',
    'block_io.operation u16',
    'block_io.unnamed_bytes u64',
    'block_io.device u32',
    'block_io.queued_by_service u32',
    'block_io.queued_by_context u32',
    ...[0, 1, 2, 3].flatMap(origin),
    'sys_sync.file u32',
    'sys_sync.fd i32',
    'sys_sync.syscall u16',
  ]);
});

test('a column of a type belongs to that type, and a common one to none', () => {
  for (const { name, eventType } of COLUMNS) {
    const [type, own] = name.split('.');
    expect(findEventDefinition(eventType)?.name).toBe(own ? type : undefined);
  }
});

test('every event type is found by its id, and unknown ids are not', () => {
  for (const event of EVENTS) expect(findEventDefinition(event.id)).toBe(event);
  expect([0, 4, 64, -1, Number.NaN].map(findEventDefinition)).toEqual([
    undefined,
    undefined,
    undefined,
    undefined,
    undefined,
  ]);
  expect(EVENT_TYPES).toEqual(['sys_write', 'block_io', 'sys_sync']);
});

test('every event begins with the same fields, so that one offset reads them all', () => {
  const heads = EVENTS.map(({ layout }) => layout.slice(0, 11).map(({ name, offset }) => [name, offset]));
  for (const head of heads) expect(head).toEqual(heads[0]);
  expect(heads[0]!.at(-1)![0]).toBe('result');
});

test('the numbers of stored words do not change', () => {
  expect(ATTRIBUTION_SOURCES).toEqual(['none', 'marker', 'inherited', 'env', 'otel', 'http', 'origin']);
  expect(ATTRIBUTION_QUALITIES).toEqual(['none', 'exact', 'inherited', 'shared', 'ambiguous']);
  expect(BLOCK_OPERATIONS).toEqual({ read: 0, write: 1, flush: 2, discard: 3, other: 4 });
  expect(WRITE_SYSCALLS).toEqual({ write: 1, pwrite64: 18, writev: 20, pwritev: 296, pwritev2: 328 });
  expect(SYNC_SYSCALLS).toEqual({
    ...{ msync: 26, fsync: 74, fdatasync: 75, sync: 162, sync_file_range: 277, syncfs: 306 },
  });
  expectUnique(FILE_KINDS);
});

test('each flag is one bit', () => {
  for (const flags of [CONTEXT_FLAGS, FILE_FLAGS]) {
    const bits = Object.values(flags);
    expectUnique(bits);
    for (const bit of bits) expect(Math.log2(bit) % 1).toBe(0);
  }
  expect(CONTEXT_LOST).toBe(1);
});

test('every cause that the kernel counts has a word at the position of its number', () => {
  expect(Object.values(KERNEL_LOSS_CAUSES)).toEqual(KERNEL_LOSS_WORDS.map((_, number) => number));
  for (const [name, number] of Object.entries(KERNEL_LOSS_CAUSES)) {
    expect(`LOSS_${KERNEL_LOSS_WORDS[number]!.toUpperCase()}`).toBe(name);
    expect(LOSS_CAUSES).toHaveProperty(KERNEL_LOSS_WORDS[number]!);
    expect(number).toBeLessThan(LOSS_CAUSES_MAX);
  }
});

test('a block has space for every column, and for each row in the columns of its type', () => {
  const block = createBlock(4);
  expect([...block.columns.keys()]).toEqual(COLUMNS.map(({ name }) => name));
  for (const { name, storage } of COLUMNS) expect(block.columns.get(name)).toEqual(createColumnArray(storage, 4));
  (block.columns.get('event_type') as Uint8Array).set([1, 1, 2, 1]);
  block.rowCount = 4;
  expect([...typeRows(block)]).toEqual([0, 1, 0, 2]);
});
