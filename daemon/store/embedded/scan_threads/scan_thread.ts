/** The main thread's side of a thread that scans. */
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { toError } from '../../../base/thread_failure.ts';
import type { Findings } from '../recording_files.ts';
import type { ServedPaths } from '../served_files.ts';
import type { FromScanThread, ScanAnswer, ScanQuestion, ToScanThread } from './messages.ts';

/** A scan that waits for its thread yields at this interval, so that a timeout or a disconnected client is noticed. */
const PAUSE_MS = 50;
const PAUSE = new Uint8Array(0);

export interface ScanThread {
  /** Number of scans of the thread that have not ended yet. */
  readonly running: number;
  /** Yields chunks and pauses. Leaving the loop early cancels the scan. */
  ask(question: ScanQuestion): AsyncGenerator<Uint8Array, ScanAnswer>;
  /** Ends the thread; its scans fail with the error. */
  end(error: Error): Promise<void>;
}

interface PendingScan {
  readonly id: number;
  /** Messages from the thread that the scan has not taken yet. */
  readonly inbox: FromScanThread[];
  wake: () => void;
}

/**
 * Starts a thread. Before a scan ends, `adopt` gets the faults that the thread found in files. `onEnd` is called when
 * the thread ends.
 */
export function beginScanThread(
  places: ServedPaths,
  adopt: (findings: Findings) => Promise<void>,
  onEnd: () => void,
): ScanThread {
  // The extension is `.ts` in the source and `.js` in the compiled package.
  const file = new URL(`./scan_worker${extname(import.meta.filename)}`, import.meta.url);
  const worker = new Worker(file, { workerData: places });
  const running = new Map<number, PendingScan>();
  let ended: unknown;
  let lastId = 0;
  worker.on('message', receive);
  worker.on('error', noteEnd);
  worker.on('exit', () => noteEnd(new Error('a thread that reads recordings has ended')));

  function noteEnd(error: unknown): void {
    ended ??= error;
    onEnd();
    const asked = [...running.values()];
    running.clear();
    for (const { wake } of asked) wake();
  }

  function receive(message: FromScanThread): void {
    // Ignores the last messages of a thread that is being ended. They would lead to `unref`, and then the process would
    // not wait for the thread to end.
    if (ended) return;
    const asked = running.get(message.id);
    if (message.kind !== 'chunk') {
      running.delete(message.id);
      // A thread that has nothing to do does not keep the process alive.
      if (running.size === 0) worker.unref();
    }
    asked?.inbox.push(message);
    asked?.wake();
  }

  function send(message: ToScanThread, transferred: ArrayBuffer[] = []): void {
    worker.postMessage(message, transferred);
  }

  async function* answerTo(
    { id, inbox }: PendingScan,
    wait: () => Promise<void>,
  ): AsyncGenerator<Uint8Array, ScanAnswer> {
    let before: ArrayBuffer | undefined;
    for (;;) {
      const message = inbox.shift();
      if (message?.kind === 'chunk') {
        yield message.bytes;
        // The next chunk is requested while this chunk is being sent to the client. The previous chunk has been sent,
        // so its memory can be reused.
        send({ kind: 'more', id, spent: before }, before && [before]);
        before = message.bytes.buffer;
      } else if (message) {
        await adopt(message.findings);
        if (message.kind === 'failed') throw toError(message.failure);
        return message.answer;
      } else {
        if (ended) throw ended;
        await wait();
        if (inbox.length === 0) yield PAUSE;
      }
    }
  }

  return {
    get running() {
      return running.size;
    },
    async *ask(question) {
      const asked: PendingScan = { id: ++lastId, inbox: [], wake: () => {} };
      running.set(asked.id, asked);
      worker.ref();
      send({ kind: 'begin', id: asked.id, question });
      try {
        return yield* answerTo(asked, () => waitOrPause(asked));
      } finally {
        if (running.has(asked.id)) send({ kind: 'cancel', id: asked.id });
      }
    },
    async end(error) {
      noteEnd(error);
      await worker.terminate();
    },
  };
}

function waitOrPause(asked: PendingScan): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, PAUSE_MS);
    asked.wake = () => {
      clearTimeout(timer);
      resolve();
    };
  });
}
