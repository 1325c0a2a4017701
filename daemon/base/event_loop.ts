/**
 * Divides the main thread's time among all work. At most one chunk of long work runs between two polls of the sockets,
 * so that a small request waits for one chunk and not for a chunk of every answer. Small work comes first, then the
 * work that has run the fewest chunks. Otherwise, a request of ten chunks would wait for ten chunks of each request of
 * thousands of chunks.
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
/** Every fourth chunk belongs to the work that has waited longest, so that no work waits forever. */
const LONGEST_EVERY = 4;
let chunkCount = 0;
let isScheduled = false;

/**
 * Maximum time in which requests are started between two polls of the sockets; the other requests wait for the next
 * poll.
 */
const START_MS_MAX = 2;
/**
 * Node accepts one connection in each pass of the event loop (libuv 1.45 and later). If each pass also ran a chunk of
 * 10 ms, the last of a thousand clients would wait 10 s to be accepted. So work pauses while connections arrive, for at
 * most this long.
 */
const ACCEPTING_MS_MAX = 10;
let connectionCame = false;
let workedMs = 0;

/** Reports that a connection was accepted: more connections may wait to be accepted. */
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
  // If an immediate schedules another immediate, Node polls the sockets before it runs the second one.
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
