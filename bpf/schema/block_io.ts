import { commonFields } from './common.ts';
import { defineRecord } from './define.ts';
import { internal, label, optional_u64, origins, queuer, text, u64 } from './kinds.ts';

/** kreplay's own numbers for block operations, because REQ_OP_* differ between kernels. The BPF program uses them. */
export const BLOCK_OPERATIONS = { read: 0, write: 1, flush: 2, discard: 3, other: 4 } as const;

export const blockIo = defineRecord('block_io', 2, 'one block request, from its queueing to its completion', {
  ...commonFields,
  sector: u64('first sector on the device, in units of 512 bytes'),
  bytes: u64('bytes of the request'),
  queue_ns: optional_u64('wait before the device got it, nanoseconds; null when it never went there by itself'),
  operation: label(BLOCK_OPERATIONS, 'what was asked of the device'),
  origin_count: internal('__u32', 'slots used in origins, or more than there are slots'),
  cgroup_id: internal('__u64', 'cgroup that the block layer charges; 0 when it knows of none'),
  unnamed_bytes: optional_u64(
    'bytes of a write that no owner in `origins` is named for; null where that is not recorded',
  ),
  device: text(32, 'disk name'),
  queued_by: queuer(
    'service and transaction of the task that queued it, `{service_name, transaction_id}`, whatever data it carries: an `fsync` waits for what it queues, a readahead does not; null where that is not recorded',
  ),
  origins: origins('whose data it carries: up to four owners, each with its bytes'),
});
