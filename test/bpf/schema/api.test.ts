/** Tests the API's event: what its schema accepts and refuses, and the types that are inferred from it. */
import { type ApiEvent, apiEventSchema, type BlockIoEvent, type SysWriteEvent } from '../../../bpf/schema/api.ts';

const common = {
  event_id: 'n1-17',
  timestamp_ns: 1_763_683_200_000_000_001n,
  timestamp: '2025-11-21T00:00:00.000000001Z',
  duration_ns: 2n ** 64n - 1n,
  service_name: 'checkout',
  transaction_id: 'order-8812',
  trace_id: '4bf92f3577b34da6a3ce929d0e0e4736',
  span_id: '00f067aa0ba902b7',
  attribution: { source: 'marker', quality: 'exact' },
  node: 'node-1',
  cpu: 3,
  pid: 4_194_304,
  tid: 4_194_304,
  comm: 'dd',
  result: -28n,
  error: 'ENOSPC',
} as const;

const sysWrite: SysWriteEvent = {
  ...common,
  event_type: 'sys_write',
  file: '/var/log/app.log',
  file_kind: 'regular',
  bytes_requested: 4096n,
  fd: 7,
  syscall: 'pwritev2',
};

const blockIo: BlockIoEvent = {
  ...common,
  event_type: 'block_io',
  sector: 2n ** 63n,
  bytes: 4096n,
  queue_ns: 12_000n,
  unnamed_bytes: 0n,
  operation: 'write',
  device: 'vda',
  queued_by: { service_name: 'checkout', transaction_id: null },
  origins: [{ service_name: 'checkout', transaction_id: null, bytes: 4096n }],
};

const noOwner = {
  transaction_id: null,
  trace_id: null,
  span_id: null,
  error: null,
  attribution: { source: 'none', quality: 'none' },
};

test.each([
  ['sys_write', sysWrite],
  ['block_io', blockIo],
  [
    'sys_write without an owner, to an unknown file',
    { ...sysWrite, ...noOwner, file: null, bytes_requested: null, fd: -1 },
  ],
  [
    'block_io without an owner, without a queue time',
    { ...blockIo, ...noOwner, queue_ns: null, queued_by: null, origins: [] },
  ],
])('%s is accepted and unchanged', (_, event) => {
  expect(apiEventSchema.parse(event)).toEqual(event);
});

test.each([
  ['no type', { ...sysWrite, event_type: undefined }],
  ['an unknown type', { ...sysWrite, event_type: 'sys_read' }],
  ['the fields of another type', { ...blockIo, event_type: 'sys_write' }],
  ['a number where 64 bits are needed', { ...sysWrite, duration_ns: 5 }],
  ['a bigint where 32 bits do', { ...sysWrite, pid: 5n }],
  ['a negative process id', { ...sysWrite, pid: -1 }],
  ['half a file descriptor', { ...sysWrite, fd: 0.5 }],
  ['an unknown syscall', { ...sysWrite, syscall: 'sendfile' }],
  ['an unknown file kind', { ...sysWrite, file_kind: 'door' }],
  ['an unknown attribution', { ...sysWrite, attribution: { source: 'guess', quality: 'exact' } }],
  ['no service', { ...sysWrite, service_name: null }],
  ['no start', { ...sysWrite, timestamp_ns: null }],
  ['an owner without its bytes', { ...blockIo, origins: [{ service_name: 'a', transaction_id: null }] }],
  ['null for owners', { ...blockIo, origins: null }],
])('an event with %s is refused', (_, event) => {
  expect(apiEventSchema.safeParse(event).success).toBe(false);
});

/** Only the compiler checks this function; it never runs. An expected error that does not occur is an error. */
export function typesAreInferred(event: ApiEvent): void {
  if (event.event_type === 'sys_write') {
    const file: string | null = event.file;
    const requested: bigint | null = event.bytes_requested;
    const syscall: 'write' | 'pwrite64' | 'writev' | 'pwritev' | 'pwritev2' = event.syscall;
    // @ts-expect-error: it may be unknown
    const known: bigint = event.bytes_requested;
    // @ts-expect-error: the reference is the agent's; the API gives the path
    void event.file_id;
    // @ts-expect-error: belongs to the other type
    void event.sector;
    // @ts-expect-error: not a value of the enum
    void (event.syscall === 'sendfile');
    void [file, requested, syscall, known];
    return;
  }
  if (event.event_type === 'sys_sync') {
    const syscall: 'msync' | 'fsync' | 'fdatasync' | 'sync' | 'sync_file_range' | 'syncfs' = event.syscall;
    const file: string | null = event.file;
    // @ts-expect-error: belongs to the other type
    void event.bytes_requested;
    void [syscall, file];
    return;
  }
  const sector: bigint = event.sector;
  const owners: { service_name: string; transaction_id: string | null; bytes: bigint }[] = event.origins;
  // @ts-expect-error: only the agent reads it
  void event.origin_count;
  // @ts-expect-error: belongs to the other type
  void event.fd;
  // @ts-expect-error: 64 bits do not fit a number
  const narrow: number = event.duration_ns;
  // @ts-expect-error: the API gives the name of the service
  void event.process_id;
  void [sector, owners, narrow];
}
