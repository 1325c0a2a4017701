/** Runs scans in separate threads, which all queries share. */
import { availableParallelism } from 'node:os';
import { yieldToEventLoop } from '../../../base/event_loop.ts';
import { Problem } from '../../../base/problem.ts';
import { bindPasses } from '../../passes.ts';
import type { Findings } from '../recording_files.ts';
import type { Scans } from '../scans.ts';
import type { ServedPaths } from '../served_files.ts';
import type { ScanAnswer, ScanQuestion } from './messages.ts';
import { beginScanThread, type ScanThread } from './scan_thread.ts';

export interface ScanThreads extends Scans {
  /** Number of scans in progress, including cancelled scans that have not ended yet. */
  readonly running: number;
}

/**
 * Maximum number of threads. Threads are kept until the daemon ends: a thread that ends closes its files, and closing a
 * file releases all locks that SQLite holds on it in this process.
 */
const THREADS_MAX = availableParallelism() > 2 ? 2 : 1;

/**
 * Creates the threads when they are first needed. Before a scan ends, `adopt` gets the faults that its thread found in
 * files.
 */
export function createScanThreads(places: ServedPaths, adopt: (findings: Findings) => void): ScanThreads {
  const threads = new Set<ScanThread>();
  let isClosed = false;

  async function adoptLater(findings: Findings): Promise<void> {
    // Waits for the next pass of the event loop, in which served files are looked up again: the scan may have read a
    // file that is newer than the last look-up.
    await yieldToEventLoop();
    if (!isClosed) adopt(findings);
  }

  function begin(): ScanThread {
    const thread = beginScanThread(places, adoptLater, () => threads.delete(thread));
    threads.add(thread);
    return thread;
  }

  function chooseThread(): ScanThread {
    const [least] = [...threads].sort((a, b) => a.running - b.running);
    return least && (least.running === 0 || threads.size === THREADS_MAX) ? least : begin();
  }

  async function* ask(question: ScanQuestion): AsyncGenerator<Uint8Array, ScanAnswer> {
    if (isClosed) throw createShutdownProblem();
    return yield* chooseThread().ask(question);
  }

  return {
    ...bindPasses((pass) => (request) => dropChunks(ask({ pass, request } as ScanQuestion)) as never),
    scanJson: (request) => ask({ pass: 'json', request }) as AsyncGenerator<Uint8Array, void>,
    get running() {
      return [...threads].reduce((sum, { running }) => sum + running, 0);
    },
    async close() {
      isClosed = true;
      await Promise.all([...threads].map((thread) => thread.end(createShutdownProblem())));
    },
  };
}

function createShutdownProblem(): Problem {
  return new Problem('shutting_down', 'the daemon is shutting down');
}

/** Drops the chunks of a scan, and returns the scan's answer. */
async function* dropChunks<Found>(scan: AsyncGenerator<Uint8Array, Found>): AsyncGenerator<void, Found> {
  try {
    for (;;) {
      const { done, value } = await scan.next();
      if (done) return value;
      yield;
    }
  } finally {
    await scan.return(undefined as never);
  }
}
