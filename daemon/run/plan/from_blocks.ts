/** Builds an incident directly from a recording's columns, because an object per event would be slow. */
import { typeRows } from '../../../bpf/schema/block.ts';
import { BLOCK_OPERATIONS, blockIo } from '../../../bpf/schema/block_io.ts';
import type { FileKind } from '../../../bpf/schema/owner.ts';
import { SYNC_SYSCALLS, sysSync } from '../../../bpf/schema/sys_sync.ts';
import { sysWrite, WRITE_SYSCALLS } from '../../../bpf/schema/sys_write.ts';
import { U64_MAX } from '../../base/bigints.ts';
import { getBigColumn, getColumn, type RecordingBlock } from '../../store/blocks/scanned_block.ts';
import type { Op } from '../format/plan_file.ts';
import type { IncidentBuilder, RecordedCall, RecordedRequest } from './incident.ts';

const OP_OF = new Map<number, Op>(
  Object.entries({ ...WRITE_SYSCALLS, ...SYNC_SYSCALLS }).map(([name, number]) => [number, name as Op]),
);
const OPERATION_OF = new Map<number, string>(Object.entries(BLOCK_OPERATIONS).map(([name, number]) => [number, name]));
const SIZE_UNKNOWN = U64_MAX;
const NO_FILE = { path: '', kind: 'unknown' };

/** Adds a block; blocks must be added in recorded order. */
export function addBlock(incident: IncidentBuilder, { block, dictionary }: RecordingBlock): void {
  const types = getColumn(block, 'event_type');
  const rows = typeRows(block);
  const starts = getBigColumn(block, 'timestamp_ns');
  const durations = getBigColumn(block, 'duration_ns');
  const tids = getColumn(block, 'tid');
  const comms = getColumn(block, 'comm');
  const services = getColumn(block, 'service');
  const sizes = getBigColumn(block, `${sysWrite.name}.bytes_requested`);
  const callsOf = new Map(
    [sysWrite, sysSync].map(({ id, name }) => {
      const [files, fds, syscalls] = ['file', 'fd', 'syscall'].map((field) => getColumn(block, `${name}.${field}`));
      return [id, { files: files!, fds: fds!, syscalls: syscalls! }];
    }),
  );
  const operations = getColumn(block, `${blockIo.name}.operation`);
  const devices = getColumn(block, `${blockIo.name}.device`);
  const call: RecordedCall = {
    node: dictionary.node,
    tid: 0,
    comm: '',
    service: '',
    op: 'write',
    path: '',
    fileKind: 'unknown',
    fd: 0,
    startNs: 0n,
    durationNs: 0,
    size: undefined,
  };
  const request: RecordedRequest = {
    node: dictionary.node,
    tid: 0,
    comm: '',
    service: '',
    device: '',
    operation: '',
    startNs: 0n,
    durationNs: 0,
  };
  for (let row = 0; row < block.rowCount; row++) {
    const columns = callsOf.get(types[row]!);
    const event = columns ? call : request;
    const own = rows[row]!;
    event.tid = tids[row]!;
    event.comm = dictionary.name(comms[row]!);
    event.service = dictionary.name(services[row]!);
    event.startNs = starts[row]!;
    event.durationNs = Number(durations[row]!);
    if (columns) {
      const { path, kind } = dictionary.file(columns.files[own]!) ?? NO_FILE;
      const size = types[row] === sysWrite.id ? sizes[own]! : SIZE_UNKNOWN;
      call.path = path;
      call.fileKind = kind as FileKind;
      call.op = OP_OF.get(columns.syscalls[own]!) ?? 'write';
      call.fd = columns.fds[own]!;
      call.size = size === SIZE_UNKNOWN ? undefined : Number(size);
      incident.addCall(call);
    } else if (types[row] === blockIo.id) {
      request.device = dictionary.name(devices[own]!);
      request.operation = OPERATION_OF.get(operations[own]!) ?? 'other';
      incident.addRequest(request);
    }
  }
}
