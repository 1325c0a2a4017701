/**
 * Shares the main thread out. At most one piece of long work runs between two polls of the sockets, however many
 * answers are in progress: if all ran at once, small requests would wait for all of them. Small work comes first, then
 * the work that has had the fewest pieces: otherwise, a question of ten pieces would wait ten times for each question
 * of thousands.
 */
interface WaitingWork {
  wake: () => void;
  /** Number of pieces that the work has had; negative for small work. */
  had: number;
}

/** Ordered by arrival. */
const waiting: WaitingWork[] = [];
const starts: (() => void)[] = [];
const pieces = new WeakMap<object, number>();
const SMALL = -1;
/** One turn in this many goes to the work that has waited longest, so that nothing waits forever. */
const LONGEST_EVERY = 4;
let turns = 0;
let isScheduled = false;

/** Requests that come together begin within this time; the others wait until the sockets have been polled. */
const START_MS_MAX = 2;
/**
 * Node accepts one connection in each turn of the event loop (libuv 1.45 and later). If each turn also had a piece of 10
 * ms, a client would wait 10 s behind a thousand others, so work waits while connections come, for this long at most.
 */
const ACCEPTING_MS_MAX = 10;
let connectionCame = false;
let workedMs = 0;

/** Reports a connection that was accepted: others may wait behind it. */
export function noteConnection(): void {
  connectionCame = true;
}

/** Calls `start` soon, in order of arrival, and not together with too many others. */
export function begin(start: () => void): void {
  starts.push(start);
  schedule();
}

/** Marks this work as small, or as no longer small. */
export function favour(work: object, isSmall: boolean): void {
  pieces.set(work, isSmall ? SMALL : 0);
}

/**
 * Resolves when it is the turn of this work, such as an answer. A piece without `work` counts as the first piece of its
 * work.
 */
export function yieldToEventLoop(work?: object): Promise<void> {
  const had = (work && pieces.get(work)) ?? 0;
  if (work && had !== SMALL) pieces.set(work, had + 1);
  return new Promise((resolve) => {
    waiting.push({ wake: resolve, had });
    schedule();
  });
}

function schedule(): void {
  if (isScheduled || starts.length + waiting.length === 0) return;
  isScheduled = true;
  // An immediate that is scheduled by another one runs after the next poll of the sockets.
  setImmediate(wake);
}

function wake(): void {
  isScheduled = false;
  const nowMs = performance.now();
  const isAccepting = connectionCame && nowMs - workedMs < ACCEPTING_MS_MAX;
  connectionCame = false;
  if (!isAccepting) {
    while (starts.length > 0 && performance.now() - nowMs < START_MS_MAX) starts.shift()!();
    const at = ++turns % LONGEST_EVERY === 0 ? 0 : findLeastServed();
    waiting.splice(at, 1)[0]?.wake();
    // The piece itself runs when this function has returned.
    queueMicrotask(noteWork);
  }
  schedule();
}

function noteWork(): void {
  workedMs = performance.now();
}

function findLeastServed(): number {
  let least = 0;
  for (let at = 1; at < waiting.length; at++) if (waiting[at]!.had < waiting[least]!.had) least = at;
  return least;
}
