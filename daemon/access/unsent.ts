/**
 * What answers hold while their clients do not read. Each of them is some memory, and a client may stop to read for ever:
 * `less` does as long as its user reads. So nobody is cut off for being slow, but when memory or connections are short,
 * those whose client has taken no byte for long make room, the longest first.
 */
import { readFileSync } from 'node:fs';
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { cut } from '../cut.ts';

export const UNSENT_BYTES_MAX_DEFAULT = 96 * 1024 * 1024;
/** A client at 10 KB a second empties its window in less. */
const STALLED_MS_DEFAULT = 10_000;
const LOOK_EVERY_MS = 1_000;
/** Memory of so much is worth to be collected when the daemon has become idle; V8 would wait for more to do. */
const GIVE_BACK_BYTES = 32 * 1024 * 1024;
/** Of an answer that is read from a recording while it is sent: blocks, columns and texts of its scan. */
const LONG_ANSWER_BYTES = 2 * 1024 * 1024;
/** A sum is good for so long: to make it looks at all answers. */
const SUM_MS = 10;

export interface Unsent {
  /** From the request on, to the end of its answer. */
  watch(res: ServerResponse): void;
  /** The answer is a long one. */
  hold(res: ServerResponse): void;
  /** What waits for clients, and what the long answers need. */
  readonly bytes: number;
  /** Whether there is memory for another long answer; one that its client does not read may be closed for it. */
  makeRoom(): boolean;
  /** Closes the answer that has waited longest for its client among those that may go, if one has waited for long. */
  closeStalled(mayGo?: (res: ServerResponse) => boolean): boolean;
}

interface Watched {
  isLong: boolean;
  /** What has changed when the client took some. */
  taken: string;
  sinceMs: number;
}

interface Options {
  bytesMax?: number;
  stalledMs?: number;
  nowMs?: () => number;
  onClosed?: () => void;
}

export function createUnsent({
  bytesMax = UNSENT_BYTES_MAX_DEFAULT,
  stalledMs = STALLED_MS_DEFAULT,
  nowMs = () => performance.now(),
  onClosed = () => {},
}: Options = {}): Unsent {
  const answers = new Map<ServerResponse, Watched>();
  let timer: NodeJS.Timeout | undefined;
  /** Since there was last nothing to send. */
  let mostBytes = 0;
  let [sum, summedMs] = [0, Number.NEGATIVE_INFINITY];

  function look(): void {
    if (answers.size === 0) {
      if (mostBytes > GIVE_BACK_BYTES) giveBack();
      mostBytes = 0;
      clearInterval(timer);
      timer = undefined;
      return;
    }
    mostBytes = Math.max(mostBytes, bytes());
    const waiting = [...answers].filter(([res]) => res.writableLength > 0);
    const queues = waiting.length > 0 ? sendQueues() : undefined;
    const now = nowMs();
    for (const [res, watched] of answers) {
      const taken = res.writableLength > 0 ? takenOf(res, queues) : '';
      if (taken === '' || taken !== watched.taken) watched.sinceMs = now;
      watched.taken = taken;
    }
  }

  function bytes(): number {
    if (nowMs() - summedMs < SUM_MS) return sum;
    summedMs = nowMs();
    sum = 0;
    for (const [res, { isLong }] of answers) sum += res.writableLength + (isLong ? LONG_ANSWER_BYTES : 0);
    return sum;
  }

  function closeStalled(mayGo: (res: ServerResponse) => boolean = () => true): boolean {
    let [longest, sinceMs]: [ServerResponse | undefined, number] = [undefined, nowMs() - stalledMs];
    for (const [res, watched] of answers) {
      if (watched.taken === '' || res.writableLength === 0 || watched.sinceMs > sinceMs || !mayGo(res)) continue;
      [longest, sinceMs] = [res, watched.sinceMs];
    }
    if (!longest) return false;
    answers.delete(longest);
    summedMs = Number.NEGATIVE_INFINITY;
    onClosed();
    const { socket } = longest;
    cut(longest);
    // What it has not sent would be kept until the client reads.
    socket?.destroy();
    return true;
  }

  return {
    watch(res) {
      answers.set(res, { isLong: false, taken: '', sinceMs: nowMs() });
      res.once('close', () => answers.delete(res));
      timer ??= setInterval(look, LOOK_EVERY_MS).unref();
    },
    hold(res) {
      const watched = answers.get(res);
      if (!watched || watched.isLong) return;
      watched.isLong = true;
      sum += LONG_ANSWER_BYTES;
    },
    get bytes() {
      return bytes();
    },
    makeRoom() {
      while (bytes() + LONG_ANSWER_BYTES > bytesMax) if (!closeStalled()) return false;
      return true;
    },
    closeStalled,
  };
}

function giveBack(): void {
  // Only with this flag V8 shows its collector, to contexts that are made after it.
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as (options: object) => Promise<void>;
  void collect({ type: 'major', execution: 'async', flavor: 'last-resort' });
}

/** Differs when the client has taken bytes: from the process, or from what the kernel holds for it. */
function takenOf(res: ServerResponse, queues: ReadonlyMap<string, string> | undefined): string {
  const socket = res.socket as (Socket & { _handle?: { writeQueueSize?: number } | null }) | null;
  const queue = queues?.get(`${hexPort(socket?.localPort)} ${hexPort(socket?.remotePort)}`);
  return `${socket?.bytesWritten} ${res.writableLength} ${socket?._handle?.writeQueueSize} ${queue}`;
}

const hexPort = (port: number | undefined): string => (port ?? 0).toString(16).toUpperCase().padStart(4, '0');

const TCP_LINE = /^ *\d+: [0-9A-F]+:([0-9A-F]{4}) [0-9A-F]+:([0-9A-F]{4}) [0-9A-F]{2} ([0-9A-F]{8}):/gm;

/**
 * By ports, what the kernel has still to bring to clients. It holds megabytes, so a client that reads slowly takes nothing
 * from the process for minutes.
 */
function sendQueues(): Map<string, string> {
  const queues = new Map<string, string>();
  for (const file of ['/proc/self/net/tcp', '/proc/self/net/tcp6']) {
    let text: string;
    try {
      text = readFileSync(file, 'latin1');
    } catch {
      continue;
    }
    for (const [, local, remote, queue] of text.matchAll(TCP_LINE)) queues.set(`${local} ${remote}`, queue!);
  }
  return queues;
}
