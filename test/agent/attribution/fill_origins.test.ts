/** Tests attribution of block requests: a request of one owner belongs to it, one of several owners is shared. */
import { BLOCK_OPERATIONS, blockIo } from '../../../bpf/schema/block_io.ts';
import { CONTEXT_FLAGS, CONTEXT_LOST } from '../../../bpf/schema/common.ts';
import { ORIGIN_SLOTS, ORIGINS_MAX } from '../../../bpf/schema/kinds.ts';
import { sysWrite } from '../../../bpf/schema/sys_write.ts';
import { type Origin, recordBytes, type Values } from '../../bpf/schema/records.ts';
import { type Attribution, CHARGED_CGROUP, createAttribution, OWN_PID, processDefinition } from './attributed.ts';

const [ORDER_1, ORDER_2, NAMED] = [256, 512, 768];
const [DD, CP] = [64, 128];

let attribution: Attribution;

beforeEach(() => {
  attribution = createAttribution();
  attribution.program(DD, 'dd');
  attribution.program(CP, 'cp');
  attribution.marker(ORDER_1, 'txn=order-1');
  attribution.marker(ORDER_2, 'txn=order-2');
  attribution.marker(NAMED, 'txn=order-3 svc=shop');
});

function origin(context_id: number, process_id: number, bytes = 4096, flags = 0): Origin {
  return { context_id, process_id, bytes, flags };
}

/** A request that `owners[0]` queued. */
function request(owners: readonly Origin[], values: Values = {}): Uint8Array {
  const [first] = owners;
  const queued = { context_id: first?.context_id ?? 0, process_id: first?.process_id ?? 0 };
  return recordBytes(blockIo, { ...queued, origin_count: owners.length, origins: owners, ...values });
}

/** `service transaction bytes` of each slot in use, of the request in row `place`. */
function slots(place = 0): string[] {
  return Array.from({ length: ORIGINS_MAX }, (_, slot) => {
    const column = `block_io.origins_${slot}`;
    const transaction = attribution.transaction(`${column}_context`, place) ?? '-';
    return `${attribution.name(`${column}_service`, place)} ${transaction} ${attribution.number(`${column}_bytes`, place)}`;
  }).filter((slot) => slot !== 'null - 0n' && slot !== 'null - 0');
}

const unnamed = () => Number(attribution.number('block_io.unnamed_bytes', 0));

test('a request of one owner belongs to it', () => {
  attribution.resolve([request([origin(ORDER_1, DD)])]);
  expect(attribution.owner()).toBe('order-1 marker exact dd');
  expect(slots()).toEqual(['dd order-1 4096']);
});

test('a request of several transactions is shared, and each owner is named', () => {
  attribution.resolve([request([origin(ORDER_1, DD, 8192), origin(ORDER_2, CP, 512)])]);
  expect(attribution.owner()).toMatch(/^- \w+ shared dd$/);
  expect(slots()).toEqual(['dd order-1 8192', 'cp order-2 512']);
});

test('whose data a filter leaves out is not named, and its bytes are unnamed', () => {
  attribution = createAttribution(0n, ({ service }, label) => service !== 'cp' && label !== 'shop');
  attribution.program(DD, 'dd');
  attribution.program(CP, 'cp');
  attribution.marker(ORDER_1, 'txn=order-1');
  attribution.marker(ORDER_2, 'txn=order-2');
  attribution.marker(NAMED, 'txn=order-3 svc=shop');
  attribution.resolve([
    request([origin(ORDER_1, DD, 8192), origin(ORDER_2, CP, 512), origin(NAMED, DD)], {
      bytes: 12_800,
      operation: BLOCK_OPERATIONS.write,
    }),
  ]);
  expect(attribution.owner()).toMatch(/^- \w+ shared dd$/);
  expect([slots(), unnamed()]).toEqual([['dd order-1 8192'], 4608]);
  attribution.resolve([
    request([origin(ORDER_2, CP)], { process_id: 0, context_id: 0, bytes: 4096, operation: BLOCK_OPERATIONS.write }),
  ]);
  expect([attribution.owner(), slots(), unnamed()]).toEqual(['- none none unknown', [], 4096]);
});

test('a request of a transaction and of no transaction is shared', () => {
  attribution.resolve([request([origin(ORDER_1, DD), origin(0, CP)])]);
  expect(attribution.owner()).toMatch(/^- \w+ shared dd$/);
  expect(slots()).toEqual(['dd order-1 4096', 'cp - 4096']);
});

test('several services without a label are several owners, whichever of them queued the request', () => {
  const owners = [origin(0, DD), origin(0, CP, 512)];
  attribution.resolve([request(owners), request(owners, { process_id: 0 }), request([origin(0, DD), origin(0, DD)])]);
  expect([0, 1, 2].map((row) => attribution.owner(row))).toEqual([
    '- origin shared dd',
    '- origin shared unknown',
    '- none none dd',
  ]);
  expect(slots(1)).toEqual(['dd - 4096', 'cp - 512']);
});

test('two processes of one transaction are one owner', () => {
  attribution.resolve([request([origin(ORDER_1, DD), origin(ORDER_1, CP, 1)])]);
  expect(attribution.owner()).toBe('order-1 marker exact dd');
  expect(slots()).toEqual(['dd order-1 4096', 'cp order-1 1']);
});

test('two markers of one transaction are one owner', () => {
  attribution.marker(1024, 'txn=order-1');
  attribution.resolve([request([origin(ORDER_1, DD), origin(1024, DD)])]);
  expect(attribution.owner()).toBe('order-1 marker exact dd');
});

test('processes and spans of one service and transaction count as one owner, in any number', () => {
  attribution.marker(1024, 'txn=order-3 svc=shop span=00000000000000aa');
  const owners = Array.from({ length: ORIGIN_SLOTS }, (_, i) => origin(i % 2 ? NAMED : 1024, i % 3 ? DD : CP, 100));
  attribution.resolve([request(owners, { bytes: 1600, operation: BLOCK_OPERATIONS.write })]);
  expect(attribution.owner()).toMatch(/^order-3 \w+ exact shop$/);
  expect([slots(), unnamed()]).toEqual([['shop order-3 1600'], 0]);
});

test('spans of one transaction share a request, which names none of them, whether or not one of them queued it', () => {
  attribution.marker(1024, 'txn=order-3 svc=shop span=00000000000000aa');
  attribution.marker(1280, 'txn=order-3 svc=shop span=00000000000000bb');
  const owners = [origin(1024, DD), origin(1280, DD)];
  const values = { bytes: 8192, operation: BLOCK_OPERATIONS.write };
  attribution.resolve([request([origin(1024, DD)], values)]);
  expect(attribution.owner()).toBe('order-3/00000000000000aa marker exact shop');
  attribution.resolve([request(owners, values)]);
  expect(attribution.owner()).toBe('order-3 marker exact shop');
  attribution.resolve([request(owners, { ...values, context_id: 0, process_id: CP })]);
  expect(attribution.owner()).toBe('order-3 origin exact shop');
  expect([slots(), unnamed()]).toEqual([['shop order-3 8192'], 0]);
});

test('a page that two processes of one transaction wrote belongs entirely to that transaction', () => {
  const values = { bytes: 4096, operation: BLOCK_OPERATIONS.write };
  attribution.resolve([request([origin(NAMED, DD, 0), origin(NAMED, CP, 0)], values)]);
  expect([slots(), unnamed()]).toEqual([['shop order-3 4096'], 0]);
  attribution.resolve([
    request([origin(NAMED, DD, 0), origin(NAMED, CP, 0)], { ...values, origin_count: ORIGIN_SLOTS + 1 }),
  ]);
  expect([slots(), unnamed()]).toEqual([['shop order-3 0'], 4096]);
});

test('more processes of one transaction than a request can name are of that transaction, and of no known service', () => {
  const owners = [
    ...Array.from({ length: ORIGIN_SLOTS - 1 }, () => origin(ORDER_1, DD, 512)),
    origin(ORDER_1, 0, 4096),
  ];
  const values = { bytes: 512 * (ORIGIN_SLOTS - 1) + 4096, operation: BLOCK_OPERATIONS.write };
  attribution.resolve([request(owners, { ...values, context_id: 0, process_id: CP })]);
  expect(attribution.owner()).toMatch(/^order-1 origin exact /);
  expect([slots(), unnamed()]).toEqual([['dd order-1 7680', 'unknown order-1 4096'], 0]);
});

test('data without an owner has no origin: its bytes are unnamed, and a request that has other data as well is shared', () => {
  const values = { bytes: 4096, operation: BLOCK_OPERATIONS.write };
  attribution.resolve([request([origin(ORDER_1, DD, 512), origin(0, 0, 3584)], values)]);
  expect([attribution.owner(), slots(), unnamed()]).toEqual(['- origin shared dd', ['dd order-1 512'], 3584]);
  attribution.resolve([request([origin(0, 0, 4096)], values)]);
  expect([attribution.owner(), slots(), unnamed()]).toEqual(['- none none unknown', [], 4096]);
});

test('of a page that an owner shares with unknown or hidden ones, no byte is known to be its own', () => {
  const values = { bytes: 4096, operation: BLOCK_OPERATIONS.write };
  attribution.resolve([request([origin(ORDER_1, DD, 0), origin(0, 0, 0)], values)]);
  expect([attribution.owner(), slots(), unnamed()]).toEqual(['- origin shared unknown', ['dd order-1 0'], 4096]);
  attribution = createAttribution(0n, ({ service }) => service !== 'cp');
  attribution.program(DD, 'dd');
  attribution.program(CP, 'cp');
  attribution.marker(ORDER_1, 'txn=order-1');
  attribution.resolve([request([origin(ORDER_1, DD, 0), origin(0, CP, 0)], values)]);
  expect([attribution.owner(), slots(), unnamed()]).toEqual(['- origin shared unknown', ['dd order-1 0'], 4096]);
});

test('processes whose definitions were lost are no owner: not one, and not beside a known one', () => {
  const [LOST, OTHER_LOST] = [448, 576];
  const lost = [origin(0, LOST, 1024), origin(0, OTHER_LOST, 1024), origin(CONTEXT_LOST, 0, 2048)];
  const values = { bytes: 4096, operation: BLOCK_OPERATIONS.write };
  attribution.resolve([request(lost, values)]);
  expect([attribution.owner(), slots(), unnamed()]).toEqual(['- none none unknown', [], 4096]);
  attribution.resolve([request([origin(0, DD, 512), ...lost], { ...values, bytes: 4608 })]);
  expect([attribution.owner(), slots(), unnamed()]).toEqual(['- origin shared dd', ['dd - 512'], 4096]);
});

test('bytes of owners beyond the listed ones are counted', () => {
  const ids = Array.from({ length: 6 }, (_, i) => 2048 + i);
  for (const id of ids) attribution.marker(id, `txn=t-${id}`);
  const owners = ids.map((id) => origin(id, DD, 512));
  attribution.resolve([request(owners, { bytes: 3072, operation: BLOCK_OPERATIONS.write })]);
  expect(attribution.owner()).toMatch(/^- \w+ shared dd$/);
  expect([slots().length, unnamed()]).toEqual([ORIGINS_MAX, 1024]);
});

test('a request with more owners than a record has slots for is shared, even if the listed ones agree', () => {
  const owners = Array<Origin>(ORIGIN_SLOTS).fill(origin(ORDER_1, DD, 512));
  const values = { origin_count: ORIGIN_SLOTS + 1, bytes: 16384, operation: BLOCK_OPERATIONS.write };
  attribution.resolve([request(owners, values)]);
  expect(attribution.owner()).toMatch(/^- \w+ shared dd$/);
  expect([slots(), unnamed()]).toEqual([['dd order-1 8192'], 8192]);
});

test('an owner that dirtied only a part of a large folio is ambiguous', () => {
  const part = origin(ORDER_1, DD, 8192, CONTEXT_FLAGS.ORIGIN_AMBIGUOUS);
  attribution.resolve([request([part], { context_id: 0, process_id: CP })]);
  expect(attribution.owner()).toBe('order-1 origin ambiguous dd');
});

test('an owner that dirtied only a part of a large folio is ambiguous even if it syncs the folio itself', () => {
  const part = origin(ORDER_1, DD, 8192, CONTEXT_FLAGS.ORIGIN_AMBIGUOUS);
  attribution.resolve([request([part])]);
  expect(attribution.owner()).toBe('order-1 marker ambiguous dd');
  attribution.resolve([request([origin(ORDER_1, DD), { ...part, process_id: CP }])]);
  expect(attribution.owner()).toBe('order-1 marker ambiguous dd');
});

test('a request of several owners is ambiguous if one of them dirtied only a part of a page', () => {
  const part = origin(ORDER_2, CP, 8192, CONTEXT_FLAGS.ORIGIN_AMBIGUOUS);
  attribution.resolve([request([origin(ORDER_1, DD), part])]);
  expect(attribution.owner()).toBe('- origin ambiguous dd');
  expect(slots()).toEqual(['dd order-1 4096', 'cp order-2 8192']);
  attribution.resolve([request([part, origin(0, DD)], { origin_count: ORIGIN_SLOTS + 1 })]);
  expect(attribution.owner()).toBe('- origin ambiguous cp');
});

test('for each owner, the service that a marker names takes precedence over that of the process', () => {
  attribution.resolve([request([origin(NAMED, DD), origin(ORDER_2, CP)])]);
  expect(slots()).toEqual(['shop order-3 4096', 'cp order-2 4096']);
});

test("an owner by reference is dropped if its setter's context had ended before the write, however late that is learned", () => {
  attribution.contexts.end(ORDER_2, 1000);
  const wroteAt = (time_ns: number) => ({
    ...origin(ORDER_2, CP, 512, CONTEXT_FLAGS.CONTEXT_INHERITED_THREAD),
    time_ns,
  });
  attribution.resolve([
    request([origin(ORDER_1, DD), wroteAt(999)], { timestamp_ns: 5000 }),
    request([origin(ORDER_1, DD), wroteAt(1000)], { timestamp_ns: 5000 }),
  ]);
  expect(slots(0)).toEqual(['dd order-1 4096', 'cp order-2 512']);
  expect(slots(1)).toEqual(['dd order-1 4096', 'cp - 512']);
});

describe('data that another task wrote', () => {
  const KWORKER = 192;
  const queuedByKernel = { context_id: 0, process_id: KWORKER };

  beforeEach(() => attribution.processes.define(processDefinition({ process_id: KWORKER, kernel_thread: 1 })));

  test('belongs to that task, including its service', () => {
    attribution.resolve([request([origin(ORDER_1, DD)], queuedByKernel)]);
    expect(attribution.owner()).toBe('order-1 origin exact dd');
  });

  test('is inherited if a child wrote it', () => {
    attribution.resolve([request([origin(ORDER_1, DD, 1, CONTEXT_FLAGS.CONTEXT_INHERITED_PROCESS)], queuedByKernel)]);
    expect(attribution.owner()).toBe('order-1 origin inherited dd');
  });

  test('takes precedence over the transaction of a task that syncs it', () => {
    attribution.resolve([request([origin(ORDER_2, CP)], { context_id: ORDER_1, process_id: DD })]);
    expect(attribution.owner()).toBe('order-2 origin exact cp');
    attribution.resolve([request([origin(0, CP)], { context_id: ORDER_1, process_id: DD })]);
    expect(attribution.owner()).toBe('- none none cp');
  });

  test('of several services has the service of the queuer; of several transactions of one service, that service', () => {
    attribution.resolve([
      request([origin(ORDER_1, DD), origin(ORDER_2, CP)], queuedByKernel),
      request([origin(ORDER_1, DD), origin(ORDER_2, DD)], queuedByKernel),
      request([origin(ORDER_1, DD), origin(ORDER_1, CP)], queuedByKernel),
    ]);
    expect([0, 1, 2].map((row) => attribution.owner(row))).toEqual([
      '- origin shared kernel',
      '- origin shared dd',
      'order-1 origin exact kernel',
    ]);
  });

  test('without a known owner has the service that the kernel charges, as a guess', () => {
    const unknown = [origin(0, KWORKER)];
    attribution.resolve([
      request(unknown, { ...queuedByKernel, cgroup_id: CHARGED_CGROUP }),
      request(unknown, { ...queuedByKernel, cgroup_id: 1 }),
      request([origin(ORDER_1, DD)], { ...queuedByKernel, cgroup_id: CHARGED_CGROUP }),
      request([origin(0, DD)], { context_id: 0, process_id: DD, cgroup_id: CHARGED_CGROUP }),
    ]);
    expect([0, 1, 2, 3].map((row) => attribution.owner(row))).toEqual([
      '- origin ambiguous charged',
      '- none none kernel',
      'order-1 origin exact dd',
      '- none none dd',
    ]);
    expect(slots()).toEqual(['charged - 4096']);
  });

  test('keeps its known owner beside data without one, whatever service the kernel charges', () => {
    const owners = [origin(0, DD), origin(0, KWORKER)];
    attribution.resolve([request(owners, { ...queuedByKernel, cgroup_id: CHARGED_CGROUP })]);
    expect([attribution.owner(), slots()]).toEqual(['- origin shared kernel', ['dd - 4096', 'kernel - 4096']]);
  });

  test('is left out if the recorder wrote it', () => {
    const OWN = 320;
    attribution.program(OWN, 'node', OWN_PID);
    const isOwn = (owners: readonly Origin[]) => {
      const record = request(owners, queuedByKernel);
      return attribution.resolver.isOwn(new Uint32Array(record.buffer), 0);
    };
    expect([[origin(0, OWN)], [origin(0, OWN), origin(0, DD)], [origin(0, DD)]].map(isOwn)).toEqual([
      true,
      false,
      false,
    ]);
  });
});

test('a request without data has no owners and keeps the task that queued it', () => {
  attribution.resolve([request([], { context_id: ORDER_1, process_id: DD })]);
  expect(attribution.owner()).toBe('order-1 marker exact dd');
  expect(slots()).toEqual([]);
});

test('the largest share is a full 32-bit number of bytes', () => {
  attribution.resolve([request([origin(ORDER_1, DD, 2 ** 32 - 1)])]);
  expect(slots()).toEqual([`dd order-1 ${2 ** 32 - 1}`]);
});

test('requests among other events change only their own rows, and leave nothing in the next block', () => {
  const write = recordBytes(sysWrite, { context_id: ORDER_2, process_id: CP });
  const shared = request([origin(ORDER_1, DD), origin(ORDER_2, CP)]);
  attribution.resolve([write, shared, write, request([origin(ORDER_1, DD)]), shared, write]);
  expect(Array.from({ length: 6 }, (_, row) => attribution.owner(row).replace(/ \w+ /, ' '))).toEqual([
    'order-2 exact cp',
    '- shared dd',
    'order-2 exact cp',
    'order-1 exact dd',
    '- shared dd',
    'order-2 exact cp',
  ]);
  attribution.resolve([request([]), request([origin(ORDER_1, DD)])]);
  expect(slots(0)).toEqual([]);
  expect(slots(1)).toEqual(['dd order-1 4096']);
});
