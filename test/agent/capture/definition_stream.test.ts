/** Tests definition records -> tables: well-formed ones arrive complete; anything else is counted and never throws. */
import fc from 'fast-check';
import type { RingReader } from 'libbpf-ts';
import { createDefinitionStream } from '../../../agent/capture/definition_stream.ts';
import {
  cgroupDefinition,
  contextDefinition,
  contextEnd,
  DEFINITIONS,
  fileDefinition,
  MARKER_SIZE,
  PATH_SIZE,
  processDefinition,
  programDefinition,
} from '../../../bpf/schema/definitions.ts';
import { sysWrite } from '../../../bpf/schema/sys_write.ts';
import { framed, recordBytes } from '../../bpf/schema/records.ts';
import { times } from '../../repeats.ts';

/** A stream over batches, one per drain(), and the calls that the tables received. */
function streamOf(...batches: readonly Uint8Array[]) {
  const told: unknown[] = [];
  const waiting = [...batches];
  const ring = {
    pendingBytes: () => waiting.reduce((sum, { length }) => sum + length, 0),
    drain(buffer: Uint8Array) {
      const batch = waiting.shift();
      buffer.set(batch ?? []);
      return batch?.length ?? 0;
    },
  } as RingReader;
  const stream = createDefinitionStream([ring], {
    contexts: {
      define: ({ context_id, time_ns, uid }, line) => told.push({ context_id, time_ns, uid, line }),
      end: (contextId, timeNs) => told.push({ ended: contextId, timeNs }),
    },
    processes: {
      define: ({ process_id, program_id, pid, uid }) => told.push({ process_id, program_id, pid, uid }),
      rename: () => undefined,
      reconsider: () => undefined,
      internService: () => 0,
      get: () => ({
        id: 0,
        service: '',
        serviceId: 0,
        own: false,
        isKernelThread: false,
        isWanted: true,
        isListed: true,
        executable: '',
        cgroupPath: undefined,
        isNamedByRule: false,
        running: { pid: 0, startNs: 0, execId: 0, stackStart: 0 },
        share: 0,
      }),
    },
    programs: {
      define: ({ program_id, executable }, args, environment) =>
        told.push({ program_id, executable, args, environment }),
      get: () => undefined,
    },
    files: {
      define: ({ file_id, inode, filesystem, mode, flags }, names) =>
        told.push({ file_id, inode, filesystem, mode, flags, names }),
      internFile: () => 0,
    },
    cgroups: { define: (cgroup_id, folders) => told.push({ cgroup_id, folders }) },
  });
  return { stream, told };
}

const text = (content: string) => new TextEncoder().encode(content);
const end = recordBytes(contextEnd, { context_id: 256, time_ns: 7 });

test('every kind of definition reaches its table, in order', () => {
  const { stream, told } = streamOf(
    framed([
      recordBytes(contextDefinition, { context_id: 256, time_ns: 5, uid: 1001 }, text('KREPLAY1 txn=Größe\n')),
      recordBytes(
        programDefinition,
        { program_id: 32, arguments_size: 9, executable: 'dd' },
        text('dd\0if=ü\0JOB_NAME=ß\0'),
      ),
      recordBytes(processDefinition, { process_id: 64, program_id: 32, pid: 10, uid: 3 }),
      end,
    ]),
    framed([recordBytes(fileDefinition, { file_id: 9, inode: 7, mode: 0o100644 }, text('wal\0data\0'))]),
    framed([
      recordBytes(cgroupDefinition, { cgroup_id: 2n ** 40n }, text('x.service\0system.slice\0')),
      recordBytes(cgroupDefinition, { cgroup_id: 1 }),
    ]),
  );
  stream.drain();
  expect(told).toEqual([
    { context_id: 256, time_ns: 5, uid: 1001, line: 'KREPLAY1 txn=Größe\n' },
    { program_id: 32, executable: 'dd', args: 'dd\0if=ü\0', environment: 'JOB_NAME=ß\0' },
    { process_id: 64, program_id: 32, pid: 10, uid: 3 },
    { ended: 256, timeNs: 7 },
    { file_id: 9, inode: 7, filesystem: 0, mode: 0o100644, flags: 0, names: ['wal', 'data'] },
    { cgroup_id: 2 ** 40, folders: ['x.service', 'system.slice'] },
    { cgroup_id: 1, folders: [] },
  ]);
  expect(stream.takeBadRecords()).toBe(0);
});

test('path components are decoded unchanged, including unusual characters', () => {
  const name = fc.string({ unit: 'binary', maxLength: 12 }).map((characters) => characters.replaceAll('\0', '-'));
  fc.assert(
    fc.property(fc.array(name, { maxLength: 8 }), (names) => {
      const path = text(names.map((part) => `${part}\0`).join(''));
      const { stream, told } = streamOf(framed([recordBytes(fileDefinition, {}, path)]));
      stream.drain();
      expect(told).toMatchObject([{ names }]);
    }),
  );
});

test('the longest marker and the longest path are accepted, and longer ones are not', () => {
  const longest = MARKER_SIZE + PATH_SIZE;
  const sizes = [MARKER_SIZE - 1, PATH_SIZE, longest, longest + 1];
  const { stream, told } = streamOf(framed(sizes.map((size) => recordBytes(fileDefinition, {}, new Uint8Array(size)))));
  stream.drain();
  expect(told).toHaveLength(3);
  expect(stream.takeBadRecords()).toBe(1);
});

test.each<[string, Uint8Array]>([
  ['an empty record', new Uint8Array()],
  ['a record that ends within its head', end.subarray(0, 6)],
  ['an unknown type', recordBytes(contextEnd, { definition_type: 99 })],
  ["an event's type", recordBytes(sysWrite)],
  ['a byte too few', end.subarray(0, end.length - 1)],
  ['a byte too many', Uint8Array.from([...end, 0])],
  ['a text that is shorter than declared', recordBytes(contextDefinition, { text_size: 9 }, text('KREPLAY1'))],
  ['a text that is longer than declared', recordBytes(contextDefinition, { text_size: 7 }, text('KREPLAY1'))],
  ['a text size that wraps around', recordBytes(contextEnd, { text_size: 2 ** 32 - 8 })],
])('%s is counted, and the neighbouring records are decoded', (_, bad) => {
  const { stream, told } = streamOf(framed([end, bad, end, bad]));
  stream.drain();
  expect(told).toHaveLength(2);
  expect(stream.takeBadRecords()).toBe(2);
  expect(stream.takeBadRecords()).toBe(0);
});

test.each([0x19, 0x7fff_ffff, 0x8000_0000, 0xffff_fff8, 0xffff_ffff])(
  'a frame whose length %p exceeds the batch is counted and ends the batch',
  (length) => {
    const frames = framed([end, end]);
    new DataView(frames.buffer).setUint32(frames.length / 2, length, true);
    const { stream, told } = streamOf(frames, framed([end]));
    stream.drain();
    expect(told).toHaveLength(2);
    expect(stream.takeBadRecords()).toBe(1);
  },
);

test('a completely filled buffer is read to its last byte', () => {
  const bytes = 1 << 20;
  const one = framed([end]);
  const rest = (bytes % one.length) / 8;
  const frames = framed([
    ...Array<Uint8Array>(Math.trunc(bytes / one.length)).fill(end),
    ...Array<Uint8Array>(rest).fill(new Uint8Array()),
  ]);
  expect(frames.length).toBe(bytes);
  const { stream, told } = streamOf(frames);
  stream.drain();
  expect(told).toHaveLength(Math.trunc(bytes / one.length));
  expect(stream.takeBadRecords()).toBe(rest);
});

test('random records never throw, and each is either decoded or counted', () => {
  const record = fc.oneof(
    fc.uint8Array({ maxLength: 120 }),
    fc
      .tuple(fc.constantFrom(...DEFINITIONS), fc.uint8Array({ maxLength: 40 }), fc.nat(200), fc.nat(255))
      .map(([definition, content, place, byte]) => {
        const bytes = recordBytes(definition, {}, content);
        bytes[place % bytes.length] = byte;
        return bytes;
      }),
  );
  fc.assert(
    fc.property(fc.array(record, { maxLength: 20 }), (records) => {
      const { stream, told } = streamOf(framed(records));
      stream.drain();
      expect(told.length + stream.takeBadRecords()).toBe(records.length);
    }),
    { numRuns: times(150) },
  );
});

test('random bytes never throw, and the whole ring is consumed', () => {
  const batch = fc
    .array(fc.oneof(fc.constantFrom(0, 24, 64, 65, 66, 67, 68), fc.nat(2 ** 32 - 1)), { minLength: 2, maxLength: 60 })
    .map((words) => new Uint8Array(Uint32Array.from(words.slice(words.length % 2)).buffer));
  fc.assert(
    fc.property(fc.array(batch, { maxLength: 4 }), (batches) => {
      const { stream, told } = streamOf(...batches, framed([end]));
      stream.drain();
      expect(told.at(-1)).toEqual({ ended: 256, timeNs: 7 });
    }),
    { numRuns: times(150) },
  );
});
