/** Reads the records of the definition rings and adds them to the tables. */
import type { RingReader } from 'libbpf-ts';
import { FRAME_HEADER_SIZE } from '../../bpf/schema/decoder.ts';
import {
  CONTEXT_SCOPES,
  cgroupDefinition,
  contextDefinition,
  contextEnd,
  DEFINITIONS,
  fileDefinition,
  MARKER_SIZE,
  PATH_SIZE,
  PROGRAM_TEXT_SIZE,
  processDefinition,
  programDefinition,
} from '../../bpf/schema/definitions.ts';
import { recordReader } from '../../bpf/schema/record_reader.ts';
import type { Cgroups } from '../attribution/cgroups.ts';
import type { Contexts } from '../attribution/contexts.ts';
import type { Files } from '../attribution/files.ts';
import type { Processes } from '../attribution/processes.ts';
import type { Programs } from '../attribution/programs.ts';

const BUFFER_BYTES = 1 << 20;
const SIZES = new Map<number, number>(DEFINITIONS.map(({ id, size }) => [id, size]));
const TEXT_BYTES_MAX = Math.max(MARKER_SIZE + PATH_SIZE, PROGRAM_TEXT_SIZE);
const readContext = recordReader(contextDefinition);
const readContextEnd = recordReader(contextEnd);
const readProcess = recordReader(processDefinition);
const readProgram = recordReader(programDefinition);
const readFile = recordReader(fileDefinition);
const readCgroup = recordReader(cgroupDefinition);
/** Size of the head of every definition: its type and the size of its text. */
const HEAD_SIZE = 8;

export interface DefinitionStream {
  /**
   * Reads the records that the rings hold at the start of the call. Later records wait for the next call; otherwise, a
   * call would never return in a flood of definitions.
   */
  drain(): void;
  /** Returns the number of records of an unknown type or a wrong size since the last call. */
  takeBadRecords(): number;
}

interface DefinitionTables {
  contexts: Pick<Contexts, 'define' | 'end'>;
  processes: Processes;
  programs: Programs;
  files: Files;
  cgroups: Pick<Cgroups, 'define'>;
}

export function createDefinitionStream(
  rings: readonly RingReader[],
  { contexts, processes, programs, files, cgroups }: DefinitionTables,
): DefinitionStream {
  const buffer = new Uint8Array(BUFFER_BYTES);
  const view = new DataView(buffer.buffer);
  const decoder = new TextDecoder('utf-8', { ignoreBOM: true });
  let badRecords = 0;

  const readLatin1 = (offset: number, size: number) => Buffer.from(buffer.buffer, offset, size).toString('latin1');
  const readText = (offset: number, size: number) => decoder.decode(buffer.subarray(offset, offset + size));
  const readNames = (offset: number, size: number) => readText(offset, size).split('\0').slice(0, -1);

  function apply(offset: number, size: number): void {
    const type = size < HEAD_SIZE ? 0 : view.getUint16(offset, true);
    const fixedSize = SIZES.get(type);
    const textSize = size < HEAD_SIZE ? 0 : view.getUint32(offset + 4, true);
    // The kernel side adds no padding here: a record and its text together have exactly the size of the frame.
    if (fixedSize === undefined || textSize > TEXT_BYTES_MAX || fixedSize + textSize !== size) {
      badRecords++;
      return;
    }
    define(type, offset, offset + fixedSize, textSize);
  }

  function define(type: number, offset: number, textOffset: number, textSize: number): void {
    if (type === contextDefinition.id) {
      const context = readContext(view, offset);
      const isBytes = context.scope === CONTEXT_SCOPES.SCOPE_OTEL;
      contexts.define(context, isBytes ? readLatin1(textOffset, textSize) : readText(textOffset, textSize));
    } else if (type === processDefinition.id) processes.define(readProcess(view, offset));
    else if (type === programDefinition.id) {
      const program = readProgram(view, offset);
      const argsSize = Math.min(program.arguments_size, textSize);
      programs.define(program, readText(textOffset, argsSize), readText(textOffset + argsSize, textSize - argsSize));
    } else if (type === fileDefinition.id) {
      files.define(readFile(view, offset), readNames(textOffset, textSize));
    } else if (type === cgroupDefinition.id) {
      cgroups.define(readCgroup(view, offset).cgroup_id, readNames(textOffset, textSize));
    } else if (type === contextEnd.id) {
      const end = readContextEnd(view, offset);
      contexts.end(end.context_id, end.time_ns);
    }
  }

  function drainRing(ring: RingReader): void {
    const pendingBytes = ring.pendingBytes();
    for (let readBytes = 0; readBytes < pendingBytes; ) {
      const filled = ring.drain(buffer);
      if (filled === 0) return;
      readBytes += filled;
      for (let at = 0; at < filled; ) {
        const size = view.getUint32(at, true);
        if (size > filled - at - FRAME_HEADER_SIZE) {
          // The size is invalid, so the start of the next frame is unknown.
          badRecords++;
          break;
        }
        apply(at + FRAME_HEADER_SIZE, size);
        at += FRAME_HEADER_SIZE + ((size + 7) & ~7);
      }
    }
  }

  return {
    drain: () => rings.forEach(drainRing),
    takeBadRecords() {
      const count = badRecords;
      badRecords = 0;
      return count;
    },
  };
}
