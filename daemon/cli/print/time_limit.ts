/** Ends a command whose work is one call into SQLite, which nothing in its own thread could interrupt. */
import { Worker } from 'node:worker_threads';

/** The clock is looked at so often while an item is waited for. */
const LOOKS = 20;

/** SQLite keeps the command's thread to itself, so the clock runs in another one. Odd: an item is waited for. */
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
  /** Each item may take so long; what is done with it does not count. */
  within<Item>(items: Iterable<Item>): Generator<Item, void>;
  end(): void;
}

/** Ends the process with this line on standard error when an item is not there after `ms`. */
export function limitTime(ms: number, line: string): TimeLimit {
  const steps = new Int32Array(new SharedArrayBuffer(4));
  const watch = new Worker(WATCH, { eval: true, workerData: { ms, line, steps, looks: LOOKS } });
  const step = () => void Atomics.add(steps, 0, 1);
  return {
    *within(items) {
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
