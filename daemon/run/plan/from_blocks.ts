/** An incident from a recording's own columns: no event becomes an object. */
import { typeRows } from '../../../bpf/schema/block.ts';
import { BLOCK_OPERATIONS, blockIo } from '../../../bpf/schema/block_io.ts';
import type { FileKind } from '../../../bpf/schema/owner.ts';
import { sysWrite, WRITE_SYSCALLS } from '../../../bpf/schema/sys_write.ts';
import { bigColumn, column } from '../../store/column.ts';
import type { ScannedBlock } from '../../store/store.ts';
import type { Op } from '../format/plan_file.ts';
import type { IncidentBuilder, RecordedRequest, RecordedWrite } from './incident.ts';

const OP_OF = new Map<number, Op>(Object.entries(WRITE_SYSCALLS).map(([name, number]) => [number, name as Op]));
const OPERATION_OF = new Map<number, string>(Object.entries(BLOCK_OPERATIONS).map(([name, number]) => [number, name]));
const SIZE_UNKNOWN = 2n ** 64n - 1n;
const NO_FILE = { path: '', kind: 'unknown' };

/** In recorded order. */
export function addBlock(incident: IncidentBuilder, { block, dictionary }: ScannedBlock): void {
  const types = column(block, 'event_type');
  const rows = typeRows(block);
  const starts = bigColumn(block, 'timestamp_ns');
  const durations = bigColumn(block, 'duration_ns');
  const tids = column(block, 'tid');
  const comms = column(block, 'comm');
  const services = column(block, 'service');
  const files = column(block, `${sysWrite.name}.file`);
  const sizes = bigColumn(block, `${sysWrite.name}.bytes_requested`);
  const fds = column(block, `${sysWrite.name}.fd`);
  const syscalls = column(block, `${sysWrite.name}.syscall`);
  const operations = column(block, `${blockIo.name}.operation`);
  const devices = column(block, `${blockIo.name}.device`);
  const write: RecordedWrite = {
    ...{ node: dictionary.node, tid: 0, comm: '', service: '', op: 'write', path: '', fileKind: 'unknown', fd: 0 },
    ...{ startNs: 0n, durationNs: 0, size: undefined },
  };
  const request: RecordedRequest = {
    ...{ node: dictionary.node, tid: 0, comm: '', service: '', device: '', operation: '' },
    ...{ startNs: 0n, durationNs: 0 },
  };
  for (let row = 0; row < block.rowCount; row++) {
    const event = types[row] === sysWrite.id ? write : request;
    const own = rows[row]!;
    event.tid = tids[row]!;
    event.comm = dictionary.name(comms[row]!);
    event.service = dictionary.name(services[row]!);
    event.startNs = starts[row]!;
    event.durationNs = Number(durations[row]!);
    if (types[row] === sysWrite.id) {
      const { path, kind } = dictionary.file(files[own]!) ?? NO_FILE;
      write.path = path;
      write.fileKind = kind as FileKind;
      write.op = OP_OF.get(syscalls[own]!) ?? 'write';
      write.fd = fds[own]!;
      write.size = sizes[own] === SIZE_UNKNOWN ? undefined : Number(sizes[own]!);
      incident.addWrite(write);
    } else if (types[row] === blockIo.id) {
      request.device = dictionary.name(devices[own]!);
      request.operation = OPERATION_OF.get(operations[own]!) ?? 'other';
      incident.addRequest(request);
    }
  }
}
