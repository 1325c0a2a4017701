/**
 * Divides the main thread's time among all work. At most one chunk of long work runs between two polls of the sockets,
 * however many answers are in progress: if all ran at once, small requests would wait for all of them. Small work comes
 * first, then the work that has had the fewest chunks: otherwise, a request of ten chunks would wait ten times for each
 * request of thousands of chunks.
 */
interface WaitingWork {
  wake: () => void;
  /** Number of chunks that the work has run so far; negative for small work. */
  had: number;
}

/** Work that waits to run its next chunk, ordered by arrival. */
const waiting: WaitingWork[] = [];
const starts: (() => void)[] = [];
const chunkCounts = new WeakMap<object, number>();
const SMALL = -1;
/** One chunk in this many is of the work that has waited longest, so that nothing waits forever. */
const LONGEST_EVERY = 4;
let chunkCount = 0;
let isScheduled = false;

/** Requests that arrive together begin within this time; any that are left wait until the sockets have been polled. */
const START_MS_MAX = 2;
/**
 * Node accepts one connection in each pass of the event loop (libuv 1.45 and later). If each pass also ran a chunk of
 * 10 ms, a client would wait 10 s behind a thousand others, so work pauses while connections arrive, for at most this
 * long.
 */
const ACCEPTING_MS_MAX = 10;
let connectionCame = false;
let workedMs = 0;

/** Reports that a connection was accepted: other connections may wait behind it. */
export function noteConnection(): void {
  connectionCame = true;
}

/** Calls `start` soon, in order of arrival, and not together with too many other starts. */
export function begin(start: () => void): void {
  starts.push(start);
  schedule();
}

/** Marks this work as small, or as no longer small. */
export function favour(work: object, isSmall: boolean): void {
  chunkCounts.set(work, isSmall ? SMALL : 0);
}

/**
 * Resolves when this work, such as an answer, may run its next chunk. A chunk without `work` counts as the first chunk
 * of new work.
 */
export function yieldToEventLoop(work?: object): Promise<void> {
  const had = (work && chunkCounts.get(work)) ?? 0;
  if (work && had !== SMALL) chunkCounts.set(work, had + 1);
  return new Promise((resolve) => {
    waiting.push({ wake: resolve, had });
    schedule();
  });
}

function schedule(): void {
  if (isScheduled || starts.length + waiting.length === 0) return;
  isScheduled = true;
  // An immediate that another immediate schedules runs after the next poll of the sockets.
  setImmediate(wake);
}

function wake(): void {
  isScheduled = false;
  const nowMs = performance.now();
  const isAccepting = connectionCame && nowMs - workedMs < ACCEPTING_MS_MAX;
  connectionCame = false;
  if (!isAccepting) {
    while (starts.length > 0 && performance.now() - nowMs < START_MS_MAX) starts.shift()!();
    const at = ++chunkCount % LONGEST_EVERY === 0 ? 0 : findLeastServed();
    waiting.splice(at, 1)[0]?.wake();
    // The chunk itself runs after this function has returned.
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
