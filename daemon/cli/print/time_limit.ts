/** Ends a command that is busy in a single call into SQLite, which no code on the same thread could interrupt. */
import { Worker } from 'node:worker_threads';

/** Number of times that the clock is checked during one time limit. */
const LOOKS = 20;

/**
 * SQLite blocks the command's thread, so another thread watches the clock. While `steps` is odd, the command waits for
 * an item.
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
  /** Limits the time to wait for each item; the time spent on processing it does not count. */
  limitWaits<Item>(items: Iterable<Item>): Generator<Item, void>;
  end(): void;
}

/** Ends the process with this line on standard error if an item takes longer than `ms`. */
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
