/**
 * Accounts for the memory of answers that their clients do not read. A client may stop reading for hours, for example
 * while its user reads a page in `less`. So the daemon does not close an answer only because its client is slow. When
 * memory or connections are scarce, the daemon closes answers whose clients have taken next to nothing for a long time,
 * the slowest first.
 */
import type { ServerResponse } from 'node:http';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { abortResponse } from '../abort_response.ts';
import { readBytesTaken } from '../socket_progress.ts';

export const UNSENT_BYTES_MAX_DEFAULT = 96 * 1024 * 1024;
/** Time for which a client is observed before its answer may be closed as stalled. */
const STALLED_MS_DEFAULT = 10_000;
/** Minimum number of bytes that a client takes in STALLED_MS_DEFAULT if it is not stalled. */
const TAKEN_BYTES_MIN_DEFAULT = 64 * 1024;
const CHECK_EVERY_MS = 1_000;
/**
 * Garbage is collected when usage has exceeded GIVE_BACK_BYTES and then stayed at most LITTLE_BYTES for LITTLE_MS. V8
 * alone would wait for more garbage. More frequent collections would delay the daemon's other work.
 */
const GIVE_BACK_BYTES = 32 * 1024 * 1024;
const LITTLE_BYTES = 8 * 1024 * 1024;
const LITTLE_MS = 1_000;
/** Memory of an answer that is read from a recording while it is sent: blocks, columns and texts of its scan. */
const LONG_ANSWER_BYTES = 2 * 1024 * 1024;
/** Memory for small answers in addition to the limit. Otherwise unread answers would block small answers. */
export const SMALL_BYTES_MAX = 32 * 1024 * 1024;
/** Time for which the sum of all answers' bytes is reused, because computing it visits all answers. */
const SUM_MS = 10;

export interface Unsent {
  /** Tracks an answer from its request to its end. */
  watch(res: ServerResponse): void;
  /** Marks the answer as a long answer, for which LONG_ANSWER_BYTES are added to the sum. */
  hold(res: ServerResponse): void;
  /** Records the bytes that the answer holds in memory until they are written. */
  gather(res: ServerResponse, bytes: number): void;
  /** Number of bytes that are waiting for clients, plus the memory of long answers. */
  readonly bytes: number;
  /**
   * Returns whether there is memory for another answer, by default a long answer. May close an answer that its client
   * does not read, to make room.
   */
  makeRoom(what?: { isSmall: boolean }): boolean;
  /**
   * Returns the stalled answer whose client has taken the fewest bytes, among those that `mayGo` permits to close;
   * undefined if there are none.
   */
  findStalled(mayGo?: (res: ServerResponse) => boolean): ServerResponse | undefined;
  /** Closes the answer and its connection. */
  close(res: ServerResponse): void;
}

interface Watched {
  isLong: boolean;
  gatheredBytes: number;
  /** The client's progress at recent checks; empty after a check at which the answer had no unsent bytes. */
  samples: { atMs: number; takenBytes: number }[];
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
  /** Peak usage since the last call of `giveBack`. */
  let mostBytes = 0;
  let muchMs = Number.NEGATIVE_INFINITY;
  let [sum, summedMs] = [0, Number.NEGATIVE_INFINITY];

  function check(): void {
    const now = nowMs();
    for (const [res, watched] of answers) {
      if (res.writableLength === 0) watched.samples = [];
      else addSample(watched, { atMs: now, takenBytes: readBytesTaken(res.req.socket) }, now - stalledMs);
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

  function findStalled(mayGo: (res: ServerResponse) => boolean = () => true): ServerResponse | undefined {
    const sinceMs = nowMs() - stalledMs;
    let [slowest, leastBytes, longestMs]: [ServerResponse | undefined, number, number] = [undefined, takenBytesMin, 0];
    for (const [res, { samples }] of answers) {
      const first = samples[0];
      // The client has taken all bytes, or has been observed for less than `stalledMs`.
      if (!first || first.atMs > sinceMs || res.writableLength === 0) continue;
      const taken = readBytesTaken(res.req.socket) - first.takenBytes;
      if (taken > leastBytes || (taken === leastBytes && first.atMs >= longestMs) || !mayGo(res)) continue;
      [slowest, leastBytes, longestMs] = [res, taken, first.atMs];
    }
    return slowest;
  }

  function close(res: ServerResponse): void {
    answers.delete(res);
    summedMs = Number.NEGATIVE_INFINITY;
    onClosed();
    // A pipelined answer that waits for earlier answers has no socket yet.
    const { socket } = res.req;
    abortResponse(res);
    // If the socket stayed open, unsent data would be kept until the client reads.
    socket.destroy();
  }

  return {
    watch(res) {
      answers.set(res, { isLong: false, gatheredBytes: 0, samples: [] });
      res.once('close', () => answers.delete(res));
      timer ??= setInterval(check, CHECK_EVERY_MS).unref();
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
    makeRoom({ isSmall } = { isSmall: false }) {
      const room = isSmall ? bytesMax + SMALL_BYTES_MAX : bytesMax - LONG_ANSWER_BYTES;
      while (bytes() > room) {
        const slowest = findStalled();
        if (!slowest) return false;
        close(slowest);
      }
      return true;
    },
    findStalled,
    close,
  };
}

/** Adds a sample. Keeps one sample that is at least as old as `sinceMs`, and drops all samples before it. */
function addSample(watched: Watched, sample: Watched['samples'][number], sinceMs: number): void {
  const { samples } = watched;
  samples.push(sample);
  while (samples.length > 1 && samples[1]!.atMs <= sinceMs) samples.shift();
}

function collectGarbage(): void {
  // V8 exposes its collector only with this flag, and only to contexts created after setting it.
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as (options: object) => Promise<void>;
  void collect({ type: 'major', execution: 'async', flavor: 'last-resort' });
}
