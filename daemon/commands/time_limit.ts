/** Ends a command whose work is one call into SQLite, which nothing in its own thread could interrupt. */
import { Worker } from 'node:worker_threads';

/** SQLite keeps the command's thread to itself, so the clock runs in another one. */
const WATCH = `
const { parentPort, workerData: { ms, line } } = require('node:worker_threads');
let timer;
parentPort.on('message', (isAtWork) => {
  clearTimeout(timer);
  if (isAtWork) timer = setTimeout(() => {
    require('node:fs').writeSync(2, line);
    process.kill(process.pid, 'SIGTERM');
  }, ms);
});`;

export interface TimeLimit {
  /** Each item may take so long; what is done with it does not count. */
  within<Item>(items: Iterable<Item>): Generator<Item, void>;
  end(): void;
}

/** Ends the process with this line on standard error when an item is not there after `ms`. */
export function limitTime(ms: number, line: string): TimeLimit {
  const watch = new Worker(WATCH, { eval: true, workerData: { ms, line } });
  return {
    *within(items) {
      watch.postMessage(true);
      for (const item of items) {
        watch.postMessage(false);
        yield item;
        watch.postMessage(true);
      }
      watch.postMessage(false);
    },
    end: () => void watch.terminate(),
  };
}
