/**
 * Reads the last lines that a command wrote to its outputs. For an output that is a file, the lines come from that
 * file. For a pipe or a socket, the lines come from a file in which the helper keeps the last output. The command
 * writes directly to a terminal, so lines on a terminal are not available.
 */
import { closeSync, constants, fstatSync, openSync, readFileSync, readSync } from 'node:fs';
import { stripVTControlCharacters } from 'node:util';
import { escapeControls } from '../../../agent/output/printable.ts';
import type { OutputLines } from '../report/result.ts';

const TAIL_BYTES_MAX = 16_384;
const LINES_MAX = 10;
const LINE_CHARACTERS_MAX = 300;

/** Values in the helper's file; native/runner/command/relay.h describes the file's layout. */
const RELAYED = { none: 0, alone: 1, together: 2 } as const;
const TAIL_AT = 24;
const OUTPUT_BYTES = TAIL_AT + TAIL_BYTES_MAX;

const OUTPUT_FDS = { 'standard output': 1, 'standard error': 2 } as const;

interface OutputFile {
  name: OutputLines['output'];
  fd: number;
  /** Device and inode of the file, to recognize that both outputs are the same file. */
  identity: string;
  fromBytes: number;
}

/**
 * Notes where each output ends. Must be called before the command starts; the returned function reads the lines that
 * were written since then. `tailsPath` is the helper's file, which may be missing.
 */
export function watchOutputs(tailsPath: string | undefined): () => OutputLines[] {
  const files = listOutputFiles();
  return () => {
    const relayed = tailsPath === undefined ? [] : readRelayed(tailsPath);
    const written = files.map(({ name, fd, fromBytes }) => ({ output: name, lines: readLastLines(fd, fromBytes) }));
    const order = Object.keys(OUTPUT_FDS);
    return [...relayed, ...written]
      .filter(({ lines }) => lines.length > 0)
      .sort((one, other) => order.indexOf(one.output) - order.indexOf(other.output));
  };
}

function readRelayed(path: string): OutputLines[] {
  let bytes: Buffer;
  try {
    bytes = readFileSync(path);
  } catch {
    // The helper could not create the file.
    return [];
  }
  // The helper could not set up its relay, for example on a full disk: the command writes directly to its outputs.
  if (bytes.length < 2 * OUTPUT_BYTES) return [];
  const [first, second] = [0, OUTPUT_BYTES].map((at) => bytes.subarray(at, at + OUTPUT_BYTES));
  const isTogether = second!.readUInt32LE(0) === RELAYED.together;
  return [
    { output: isTogether ? 'output' : 'standard output', lines: readTail(first!) },
    { output: 'standard error', lines: readTail(second!) },
  ];
}

/** Reads the ring buffer that contains the last bytes of an output. */
function readTail(output: Buffer): string[] {
  if (output.readUInt32LE(0) !== RELAYED.alone) return [];
  const passed = output.readBigUInt64LE(8);
  const ring = output.subarray(TAIL_AT);
  if (passed <= BigInt(ring.length)) return splitLines(ring.subarray(0, Number(passed)).toString());
  const start = Number(passed % BigInt(ring.length));
  const text = Buffer.concat([ring.subarray(start), ring.subarray(0, start)]).toString();
  return splitLines(text.slice(text.indexOf('\n') + 1));
}

function listOutputFiles(): OutputFile[] {
  const files: OutputFile[] = [];
  for (const [name, fd] of Object.entries(OUTPUT_FDS)) {
    const file = findOutputFile(fd);
    if (!file) continue;
    const known = files.find(({ identity }) => identity === file.identity);
    if (known) known.name = 'output';
    else files.push({ ...file, name: name as OutputLines['output'] });
  }
  return files;
}

function findOutputFile(fd: number): Omit<OutputFile, 'name'> | undefined {
  try {
    const stat = fstatSync(fd);
    if (!stat.isFile()) return undefined;
    return { fd, identity: `${stat.dev} ${stat.ino}`, fromBytes: findEndBytes(fd) };
  } catch {
    // The descriptor is closed.
    return undefined;
  }
}

/**
 * Returns the offset of the next write to an output: the file's end if the file is open for appending, otherwise the
 * descriptor's position.
 */
function findEndBytes(fd: number): number {
  const text = readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8');
  const flags = Number.parseInt(/^flags:\s*([0-7]+)$/m.exec(text)![1]!, 8);
  return flags & constants.O_APPEND ? fstatSync(fd).size : Number(/^pos:\s*(\d+)$/m.exec(text)![1]);
}

function readLastLines(fd: number, fromBytes: number): string[] {
  try {
    const endBytes = findEndBytes(fd);
    const startBytes = Math.max(fromBytes, endBytes - TAIL_BYTES_MAX);
    const bytes = Buffer.alloc(Math.max(endBytes - startBytes, 0));
    const file = openSync(`/proc/self/fd/${fd}`, 'r');
    try {
      const text = bytes.subarray(0, readSync(file, bytes, 0, bytes.length, startBytes)).toString();
      return splitLines(startBytes > fromBytes ? text.slice(text.indexOf('\n') + 1) : text);
    } finally {
      closeSync(file);
    }
  } catch {
    // The file is not readable or was removed.
    return [];
  }
}

function splitLines(text: string): string[] {
  return stripVTControlCharacters(text)
    .split('\n')
    .map((line) => line.trimEnd())
    .filter(Boolean)
    .slice(-LINES_MAX)
    .map((line) => escapeControls(line.slice(0, LINE_CHARACTERS_MAX)));
}
