/**
 * Calls that failed in production, identified by their threads and start times. Failed calls are few, so other calls
 * are skipped before they are parsed.
 */
import { constants } from 'node:os';
import { blockIo } from '../../../bpf/schema/block_io.ts';
import { getBigColumn, getColumn, type RecordingBlock } from '../../store/blocks/scanned_block.ts';

export interface RecordedErrors {
  readonly count: number;
  /** Returns the error of a call; 0 if the call did not fail. `offsetNs` is relative to the incident's first event. */
  getErrno(tid: number, offsetNs: number): number;
}

export interface ErrorCollector extends RecordedErrors {
  /** Adds the failed calls of a block. Blocks must be added in recorded order, as to the incident. */
  addBlock(block: RecordingBlock): void;
  /** Adds the call of one of a daemon's events, given as JSON, if the call failed. */
  addLine(line: string): void;
}

/** Errors that programs can see; the kernel has other numbers for calls that it restarts by itself. */
const ERRNOS: ReadonlySet<number> = new Set(Object.values(constants.errno));

/**
 * Find fields in a JSON text: a double would round the timestamp. A quote inside a JSON text has a backslash in front,
 * so matches are always the fields.
 */
const TIMESTAMP = /[{,]"timestamp_ns":(\d{1,20})[,}]/;
const FAILED = /[{,]"result":-(\d{1,4})[,}]/;

/** With a service, calls of others are left out, as in the incident. */
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
        // A block request is not a call. A call that failed because of the request has its own event.
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

/** The origins of a request have such a field too, so the text has to be parsed. */
function readServiceName(line: string): string {
  return (JSON.parse(line) as { service_name: string }).service_name;
}
