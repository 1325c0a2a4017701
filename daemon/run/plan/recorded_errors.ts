/**
 * Collects the calls that failed in production, identified by thread and start time. Failed calls are rare, so
 * successful calls are skipped before they are parsed.
 */
import { constants } from 'node:os';
import { blockIo } from '../../../bpf/schema/block_io.ts';
import { getBigColumn, getColumn, type RecordingBlock } from '../../store/blocks/scanned_block.ts';

export interface RecordedErrors {
  readonly count: number;
  /** Returns a call's error number; 0 if the call succeeded. `offsetNs` is relative to the incident's first event. */
  getErrno(tid: number, offsetNs: number): number;
}

export interface ErrorCollector extends RecordedErrors {
  /** Adds the failed calls of a block. Blocks must be added in recorded order. */
  addBlock(block: RecordingBlock): void;
  /** Adds the call of an event if it failed. `line` is an event of a daemon as JSON. */
  addLine(line: string): void;
}

/** Error numbers that programs can see. The kernel uses other numbers internally for calls that it restarts. */
const ERRNOS: ReadonlySet<number> = new Set(Object.values(constants.errno));

/**
 * Match fields in the JSON text, because JSON.parse would round the timestamp to a double. Quotes inside a JSON string
 * are escaped with a backslash, so the patterns match only the fields.
 */
const TIMESTAMP = /[{,]"timestamp_ns":(\d{1,20})[,}]/;
const FAILED = /[{,]"result":-(\d{1,4})[,}]/;

/** Creates a collector. With `service`, calls of other services are left out, as in the incident. */
export function createErrorCollector(service?: string): ErrorCollector {
  const errors = new Map<string, number>();
  let firstNs: bigint | undefined;
  const buildCallKey = (tid: number, offsetNs: number) => `${tid} ${offsetNs}`;

  function add(tid: number, startNs: bigint, errno: number): void {
    if (ERRNOS.has(errno)) errors.set(buildCallKey(tid, Number(startNs - firstNs!)), errno);
  }

  return {
    get count() {
      return errors.size;
    },
    getErrno: (tid, offsetNs) => errors.get(buildCallKey(tid, offsetNs)) ?? 0,
    addBlock({ block, dictionary }) {
      const types = getColumn(block, 'event_type');
      const tids = getColumn(block, 'tid');
      const starts = getBigColumn(block, 'timestamp_ns');
      const results = getBigColumn(block, 'result');
      const services = getColumn(block, 'service');
      for (let row = 0; row < block.rowCount; row++) {
        if (service !== undefined && dictionary.name(services[row]!) !== service) continue;
        firstNs ??= starts[row]!;
        // A block request is not a call. If a call failed because of this request, the call has its own event.
        if (results[row]! >= 0n || types[row] === blockIo.id) continue;
        add(tids[row]!, starts[row]!, Number(-results[row]!));
      }
    },
    addLine(line) {
      if (service !== undefined && readServiceName(line) !== service) return;
      const failed = FAILED.exec(line);
      if (!failed && firstNs !== undefined) return;
      const startNs = BigInt(TIMESTAMP.exec(line)![1]!);
      firstNs ??= startNs;
      if (!failed) return;
      const { event_type, tid } = JSON.parse(line) as { event_type: string; tid: number };
      if (event_type !== blockIo.name) add(tid, startNs, Number(failed[1]));
    },
  };
}

/** Returns the event's `service_name`. A pattern is not enough, because a request's origins also have this field. */
function readServiceName(line: string): string {
  return (JSON.parse(line) as { service_name: string }).service_name;
}
