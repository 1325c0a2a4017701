/**
 * Reads the last lines that a command has written: from outputs that are files, and from the file in which the helper
 * keeps what went through pipes and sockets. A terminal is handed to the command as it is, and what went there cannot be
 * read again.
 */
import { closeSync, constants, fstatSync, openSync, readFileSync, readSync } from 'node:fs';
import { stripVTControlCharacters } from 'node:util';
import { escapeControls } from '../../../agent/output/printable.ts';
import type { OutputLines } from '../report/result.ts';

const TAIL_BYTES_MAX = 16_384;
const LINES_MAX = 10;
const LINE_CHARACTERS_MAX = 300;

/** The layout of the helper's file: native/runner/command/relay.h. */
const RELAYED = { none: 0, alone: 1, together: 2 } as const;
const TAIL_AT = 24;
const OUTPUT_BYTES = TAIL_AT + TAIL_BYTES_MAX;

const OUTPUT_FDS = { 'standard output': 1, 'standard error': 2 } as const;

interface OutputFile {
  name: OutputLines['output'];
  fd: number;
  /** Identifies the file: both outputs may be the same. */
  identity: string;
  fromBytes: number;
}

/**
 * Call this before the command is started; the returned function reads the lines that were written since then.
 * `tailsPath` is the helper's file, which may be missing.
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
    // The helper could not make the file.
    return [];
  }
  // The helper could not make a relay, as on a full disk: the command has its outputs as they are.
  if (bytes.length < 2 * OUTPUT_BYTES) return [];
  const [first, second] = [0, OUTPUT_BYTES].map((at) => bytes.subarray(at, at + OUTPUT_BYTES));
  const isTogether = second!.readUInt32LE(0) === RELAYED.together;
  return [
    { output: isTogether ? 'output' : 'standard output', lines: readTail(first!) },
    { output: 'standard error', lines: readTail(second!) },
  ];
}

/** The last bytes of an output are in a ring. */
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
    // A descriptor that is closed has no lines.
    return undefined;
  }
}

/** Returns where the next write to an output goes: to the end of a file that is appended to, else to its position. */
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
    // A file that may not be read, or that was removed, has no lines to show.
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
