/**
 * Tests records -> columns with references: times, texts, services, owners and files, in the order that makes them
 * right.
 */
import fc from 'fast-check';
import { blockIo } from '../../../bpf/schema/block_io.ts';
import { CONTEXT_FLAGS, CONTEXT_LOST } from '../../../bpf/schema/common.ts';
import { sysWrite } from '../../../bpf/schema/sys_write.ts';
import { framed, recordBytes } from '../../bpf/schema/records.ts';
import { createAttribution, OWN_PID } from './attributed.ts';

const { CONTEXT_INHERITED_PROCESS, CONTEXT_INHERITED_THREAD, CONTEXT_PROCESS_DEFAULT } = CONTEXT_FLAGS;

test('wall times are boot times plus the offset, to the nanosecond, with every carry', () => {
  const edges = fc.constantFrom(0n, 1n, 2n ** 32n - 1n, 2n ** 32n, 2n ** 63n - 1n, -1n, -(2n ** 32n), -(2n ** 63n));
  const bootNs = fc.oneof(edges, fc.bigInt({ min: 0n, max: 2n ** 64n - 1n })).map((ns) => BigInt.asUintN(64, ns));
  const offsetNs = fc.oneof(edges, fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }));
  fc.assert(
    fc.property(fc.array(bootNs, { minLength: 1, maxLength: 20 }), offsetNs, (times, offset) => {
      const attribution = createAttribution(offset);
      attribution.resolve(times.map((timestamp_ns) => recordBytes(sysWrite, { timestamp_ns })));
      times.forEach((time, row) => {
        expect(attribution.number('timestamp_ns', row)).toBe(BigInt.asUintN(64, time + offset));
      });
    }),
  );
});

test('texts, services and files are those that the record refers to', () => {
  const attribution = createAttribution();
  attribution.program(256, 'postgres');
  attribution.files.define({ file_id: 512, inode: 7, filesystem: 0xef53, mode: 0o100644, flags: 0 }, ['wal', 'data']);
  attribution.resolve([
    recordBytes(blockIo, { process_id: 256, comm: 'walwriter', device: 'nvme0n1' }),
    recordBytes(sysWrite, { process_id: 256, comm: 'checkpointer', file_id: 512 }),
    recordBytes(sysWrite, { process_id: 999, comm: 'a name of 16 by', file_id: 999 }),
  ]);
  expect([0, 1, 2].map((row) => attribution.name('comm', row))).toEqual([
    'walwriter',
    'checkpointer',
    'a name of 16 by',
  ]);
  expect([0, 1, 2].map((row) => attribution.name('service', row))).toEqual(['postgres', 'postgres', 'unknown']);
  expect(attribution.name('block_io.device', 0)).toBe('nvme0n1');
  expect([0, 1].map((row) => attribution.name('sys_write.file', row))).toEqual(['/data/wal', null]);
});

test.each([
  ['the marker of the thread itself', { context_id: 256 }, 'order-1 marker exact dd'],
  ['a default of the process', { context_id: 256, flags: CONTEXT_PROCESS_DEFAULT }, 'order-1 marker exact dd'],
  ['a forked copy', { context_id: 256, flags: CONTEXT_INHERITED_PROCESS }, 'order-1 inherited inherited dd'],
  ['that of its creator', { context_id: 256, flags: CONTEXT_INHERITED_THREAD }, 'order-1 inherited inherited dd'],
  [
    'that of its creator, which had ended when the event began',
    { context_id: 512, flags: CONTEXT_INHERITED_THREAD, timestamp_ns: 1000 },
    '- none none dd',
  ],
  [
    'that of its creator, which ended during the event',
    { context_id: 512, flags: CONTEXT_INHERITED_THREAD, timestamp_ns: 999, duration_ns: 50 },
    'order-2 inherited inherited dd',
  ],
  ['none', {}, '- none none dd'],
  ['one that was lost', { context_id: CONTEXT_LOST }, '- none none dd'],
  ['one that is not defined', { context_id: 768 }, '- none none dd'],
  ['one that names the service too', { context_id: 1024 }, 'order-3 marker exact shop'],
  ['one that names only the service', { context_id: 1280 }, '- marker exact shop'],
])('the context of an event: %s', (_, values, owner) => {
  const attribution = createAttribution();
  attribution.program(64, 'dd');
  attribution.marker(256, 'txn=order-1');
  attribution.marker(512, 'txn=order-2');
  attribution.contexts.end(512, 1000);
  attribution.marker(1024, 'txn=order-3 svc=shop');
  attribution.marker(1280, 'svc=shop');
  attribution.resolve([recordBytes(sysWrite, { process_id: 64, ...values })]);
  expect(attribution.owner()).toBe(owner);
});

test('a row keeps nothing of the previous contents of its block', () => {
  const attribution = createAttribution();
  attribution.program(64, 'dd');
  attribution.marker(256, 'txn=order-1 svc=shop');
  attribution.resolve([recordBytes(sysWrite, { process_id: 64, context_id: 256 })]);
  expect(attribution.owner()).toBe('order-1 marker exact shop');
  attribution.resolve([recordBytes(sysWrite, { process_id: 64 })]);
  expect(attribution.owner()).toBe('- none none dd');
});

test("only records of the recorder's own processes are its own", () => {
  const attribution = createAttribution();
  attribution.program(64, 'node', OWN_PID);
  attribution.program(128, 'dd');
  const words = new Uint32Array(framed([64, 128, 999].map((id) => recordBytes(sysWrite, { process_id: id }))).buffer);
  const offsets = [0, 1, 2].map((i) => 8 + i * (8 + sysWrite.size));
  expect(offsets.map((offset) => attribution.resolver.isOwn(words, offset))).toEqual([true, false, false]);
});
