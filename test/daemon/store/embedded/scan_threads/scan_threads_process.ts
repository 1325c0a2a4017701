/** Uses threads that scan in a process of its own: `close`, `idle` or `busy` is how it leaves them at its end. */
import type { Worker } from 'node:worker_threads';
import { openRecordingStore } from '../../../../../daemon/store/embedded/recording_store.ts';
import { createScanThreads } from '../../../../../daemon/store/embedded/scan_threads/scan_threads.ts';

const [ending, ...recordings] = process.argv.slice(2);
const workers: Worker[] = [];
process.on('worker', (worker) => workers.push(worker));
const opened = openRecordingStore(undefined, recordings);
const threads = createScanThreads({ data: undefined, recordings }, opened.adopt);

async function count(): Promise<number> {
  const scan = threads.stats({ filter: {}, bucketNs: undefined, groupBy: ['service'] });
  for (;;) {
    const { done, value } = await scan.next();
    if (done) return value.total.count;
  }
}

/** Describes the error with which a stream ends after `between`, which runs after its first chunk. */
async function failure(between: () => unknown): Promise<string> {
  let chunks = 0;
  try {
    for await (const { length } of threads.scanJson({ filter: {}, order: 'asc' }))
      if (length > 0 && ++chunks === 1) await between();
    return 'no failure';
  } catch (error) {
    const { code, message } = error as Error & { code?: string };
    return `${code}: ${message}`;
  }
}

console.log(await count());
console.log(await failure(() => workers.at(-1)!.terminate()));
console.log(await count());
if (ending === 'close') await threads.close();
if (ending === 'busy') console.log(await failure(() => threads.close()));
console.log('done');
