/** Ends a command that is inside one long call into SQLite, which other code on the same thread cannot interrupt. */
import { Worker } from 'node:worker_threads';

/** Number of checks of the clock within one time limit. */
const LOOKS = 20;

/**
 * Code of the thread that watches the clock while SQLite blocks the command's thread. While `steps` is odd, the command
 * is waiting for an item.
 */
const WATCH = `
const { workerData: { ms, line, steps, looks } } = require('node:worker_threads');
let [seen, sinceMs] = [-1, 0];
setInterval(() => {
  const step = Atomics.load(steps, 0);
  if (step !== seen) [seen, sinceMs] = [step, performance.now()];
  if (step % 2 === 0 || performance.now() - sinceMs < ms) return;
  require('node:fs').writeSync(2, line);
  process.kill(process.pid, 'SIGTERM');
}, Math.max(ms / looks, 1));`;

export interface TimeLimit {
  /**
   * Yields the items, and limits the time to wait for each of them. The caller's time between two items does not count.
   */
  limitWaits<Item>(items: Iterable<Item>): Generator<Item, void>;
  end(): void;
}

/**
 * Creates a limit that ends the process if an item takes longer than `ms`. The process prints `line` on standard error
 * first.
 */
export function limitTime(ms: number, line: string): TimeLimit {
  const steps = new Int32Array(new SharedArrayBuffer(4));
  const watch = new Worker(WATCH, { eval: true, workerData: { ms, line, steps, looks: LOOKS } });
  const step = () => void Atomics.add(steps, 0, 1);
  return {
    *limitWaits(items) {
      step();
      for (const item of items) {
        step();
        yield item;
        step();
      }
      step();
    },
    end: () => void watch.terminate(),
  };
}
