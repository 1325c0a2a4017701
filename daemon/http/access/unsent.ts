/**
 * What answers hold while their clients do not read. Each of them is some memory, and a client may stop to read for ever:
 * `less` does as long as its user reads. So nobody is cut off for being slow, but when memory or connections are short,
 * those whose client has taken next to nothing for long make room, the slowest first.
 */
import type { ServerResponse } from 'node:http';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { cut } from '../cut.ts';
import { takenBytes } from './taken.ts';

export const UNSENT_BYTES_MAX_DEFAULT = 96 * 1024 * 1024;
/** For so long a client is looked at, and so much it has to take meanwhile, or it may be closed when room is wanted. */
const STALLED_MS_DEFAULT = 10_000;
const TAKEN_BYTES_MIN_DEFAULT = 64 * 1024;
const LOOK_EVERY_MS = 1_000;
/**
 * Memory of so much is worth collecting once far less has been needed for a while: V8 would wait for more to do, and
 * collecting all of it delays what else the daemon does.
 */
const GIVE_BACK_BYTES = 32 * 1024 * 1024;
const LITTLE_BYTES = 8 * 1024 * 1024;
const LITTLE_MS = 1_000;
/** Of an answer that is read from a recording while it is sent: blocks, columns and texts of its scan. */
const LONG_ANSWER_BYTES = 2 * 1024 * 1024;
/** A sum is good for so long: to make it looks at all answers. */
const SUM_MS = 10;

export interface Unsent {
  /** From the request on, to the end of its answer. */
  watch(res: ServerResponse): void;
  /** The answer is a long one. */
  hold(res: ServerResponse): void;
  /** The answer has so many bytes at hand that are still to be written. */
  gather(res: ServerResponse, bytes: number): void;
  /** What waits for clients, and what the long answers need. */
  readonly bytes: number;
  /** Whether there is memory for another long answer; one that its client does not read may be closed for it. */
  makeRoom(): boolean;
  /** The answer whose client has taken least for long, among those that may go; undefined when all clients read. */
  stalled(mayGo?: (res: ServerResponse) => boolean): ServerResponse | undefined;
  /** Closes it with its connection. */
  close(res: ServerResponse): void;
}

interface Watched {
  isLong: boolean;
  gatheredBytes: number;
  /** What its client has taken at each look, for as long as it was never up to date. */
  looks: { atMs: number; takenBytes: number }[];
}

interface Options {
  bytesMax?: number;
  stalledMs?: number;
  takenBytesMin?: number;
  nowMs?: () => number;
  onClosed?: () => void;
  giveBack?: () => void;
}

export function createUnsent({
  bytesMax = UNSENT_BYTES_MAX_DEFAULT,
  stalledMs = STALLED_MS_DEFAULT,
  takenBytesMin = TAKEN_BYTES_MIN_DEFAULT,
  nowMs = () => performance.now(),
  onClosed = () => {},
  giveBack = collectGarbage,
}: Options = {}): Unsent {
  const answers = new Map<ServerResponse, Watched>();
  let timer: NodeJS.Timeout | undefined;
  /** Since memory was given back. */
  let mostBytes = 0;
  let muchMs = Number.NEGATIVE_INFINITY;
  let [sum, summedMs] = [0, Number.NEGATIVE_INFINITY];

  function look(): void {
    const now = nowMs();
    for (const [res, watched] of answers) {
      if (res.writableLength === 0) watched.looks = [];
      else addLook(watched, { atMs: now, takenBytes: takenBytes(res.req.socket) }, now - stalledMs);
    }
    if (bytes() > LITTLE_BYTES) muchMs = now;
    else if (now - muchMs >= LITTLE_MS && mostBytes > GIVE_BACK_BYTES) {
      mostBytes = 0;
      giveBack();
    }
    if (answers.size > 0 || mostBytes > GIVE_BACK_BYTES) return;
    clearInterval(timer);
    timer = undefined;
  }

  function bytes(): number {
    if (nowMs() - summedMs < SUM_MS) return sum;
    summedMs = nowMs();
    sum = 0;
    for (const [res, { isLong, gatheredBytes }] of answers)
      sum += res.writableLength + gatheredBytes + (isLong ? LONG_ANSWER_BYTES : 0);
    mostBytes = Math.max(mostBytes, sum);
    return sum;
  }

  function stalled(mayGo: (res: ServerResponse) => boolean = () => true): ServerResponse | undefined {
    const sinceMs = nowMs() - stalledMs;
    let [slowest, leastBytes, longestMs]: [ServerResponse | undefined, number, number] = [undefined, takenBytesMin, 0];
    for (const [res, { looks }] of answers) {
      const first = looks[0];
      // It is up to date, or was less than so long ago.
      if (!first || first.atMs > sinceMs || res.writableLength === 0) continue;
      const taken = takenBytes(res.req.socket) - first.takenBytes;
      if (taken > leastBytes || (taken === leastBytes && first.atMs >= longestMs) || !mayGo(res)) continue;
      [slowest, leastBytes, longestMs] = [res, taken, first.atMs];
    }
    return slowest;
  }

  function close(res: ServerResponse): void {
    answers.delete(res);
    summedMs = Number.NEGATIVE_INFINITY;
    onClosed();
    // An answer that others go before on its connection has no socket of its own yet.
    const { socket } = res.req;
    cut(res);
    // What it has not sent would be kept until the client reads.
    socket.destroy();
  }

  return {
    watch(res) {
      answers.set(res, { isLong: false, gatheredBytes: 0, looks: [] });
      res.once('close', () => answers.delete(res));
      timer ??= setInterval(look, LOOK_EVERY_MS).unref();
    },
    hold(res) {
      const watched = answers.get(res);
      if (!watched || watched.isLong) return;
      watched.isLong = true;
      sum += LONG_ANSWER_BYTES;
    },
    gather(res, gatheredBytes) {
      const watched = answers.get(res);
      if (!watched) return;
      sum += gatheredBytes - watched.gatheredBytes;
      watched.gatheredBytes = gatheredBytes;
    },
    get bytes() {
      return bytes();
    },
    makeRoom() {
      while (bytes() + LONG_ANSWER_BYTES > bytesMax) {
        const slowest = stalled();
        if (!slowest) return false;
        close(slowest);
      }
      return true;
    },
    stalled,
    close,
  };
}

/** Keeps the looks of the last while: from the last one before it on. */
function addLook(watched: Watched, look: Watched['looks'][number], sinceMs: number): void {
  const { looks } = watched;
  looks.push(look);
  while (looks.length > 1 && looks[1]!.atMs <= sinceMs) looks.shift();
}

function collectGarbage(): void {
  // Only with this flag V8 shows its collector, to contexts that are made after it.
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as (options: object) => Promise<void>;
  void collect({ type: 'major', execution: 'async', flavor: 'last-resort' });
}
