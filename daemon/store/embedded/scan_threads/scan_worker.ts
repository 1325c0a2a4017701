/**
 * A thread that scans, so that no step of a scan delays the main thread. The scans of the thread alternate, one step at
 * a time.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { limitPieceCache } from '../../../../agent/recording/read/segment.ts';
import { yieldToEventLoop } from '../../../base/event_loop.ts';
import { toThreadFailure } from '../../../base/thread_failure.ts';
import { giveWay } from '../../../thread_schedule.ts';
import { PASSES } from '../../passes.ts';
import { openRecordingStore } from '../recording_store.ts';
import { createBlockSource, scanAsJson } from '../scans.ts';
import type { ServedPaths } from '../served_files.ts';
import { CHUNKS_AHEAD, type FromScanThread, type ScanQuestion, type ToScanThread } from './messages.ts';

/**
 * Interval at which the thread looks up the served files, and thereby closes removed files. A removed file takes up
 * disk space until it is closed.
 */
const LOOK_EVERY_MS = 60_000;

/** Size of the cache: half of the main thread's cache, because most scans read more data than a cache can keep. */
const CACHE_BYTES_MAX = 32 * 1024 * 1024;

/**
 * Size of a chunk. Chunks are large, because a message to the main thread and back costs as much as writing 50 KiB of
 * events.
 */
const CHUNK_BYTES = 512 * 1024;

interface Scan {
  readonly id: number;
  isCancelled: boolean;
  /** Number of chunks that may be sent now. */
  wanted: number;
  /** Memory of sent chunks that the main thread has returned for reuse. */
  readonly spent: ArrayBuffer[];
  /** Called when another chunk is wanted, or when the scan is cancelled. */
  wake: () => void;
}

limitPieceCache(CACHE_BYTES_MAX);
// This thread gets a lower priority, because replays must get a CPU whenever they need one.
giveWay();
const port = parentPort!;
const { data, recordings: named } = workerData as ServedPaths;
const recordings = openRecordingStore(data, named);
const source = createBlockSource(recordings);
const scans = new Map<number, Scan>();

port.on('message', (message: ToScanThread) => {
  if (message.kind === 'begin') return void run(message.id, message.question);
  const scan = scans.get(message.id);
  if (!scan) return;
  if (message.kind === 'cancel') scan.isCancelled = true;
  else {
    scan.wanted++;
    if (message.spent) scan.spent.push(message.spent);
  }
  scan.wake();
});

setInterval(() => {
  try {
    recordings.nodes();
  } catch {
    // The next scan fails in the same way, and reports the error.
  }
}, LOOK_EVERY_MS);

async function run(id: number, question: ScanQuestion): Promise<void> {
  const scan: Scan = { id, isCancelled: false, wanted: CHUNKS_AHEAD, spent: [], wake: () => {} };
  scans.set(id, scan);
  try {
    const answer = await answerTo(question, scan);
    send({ kind: 'done', id, answer, findings: recordings.findings() });
  } catch (error) {
    send({ kind: 'failed', id, failure: toThreadFailure(error), findings: recordings.findings() });
  } finally {
    scans.delete(id);
  }
}

async function answerTo(question: ScanQuestion, scan: Scan): Promise<unknown> {
  if (question.pass !== 'json')
    return runToEnd<unknown>(PASSES[question.pass](source, question.request as never), scan);
  const takeBuffer = () => {
    const spent = scan.spent.pop();
    return spent ? Buffer.from(spent) : Buffer.allocUnsafeSlow(CHUNK_BYTES);
  };
  return sendChunks(scanAsJson(recordings, question.request, takeBuffer), scan);
}

/** Runs all steps of `work` and resolves to its answer; undefined if the scan was cancelled. */
async function runToEnd<Answer>(work: AsyncGenerator<void, Answer>, scan: Scan): Promise<Answer | undefined> {
  for (;;) {
    await yieldToEventLoop(scan);
    if (scan.isCancelled) break;
    const { done, value } = await work.next();
    if (done) return value;
  }
  await work.return(undefined as never);
  return undefined;
}

async function sendChunks(chunks: AsyncGenerator<Uint8Array, void>, scan: Scan): Promise<undefined> {
  for (;;) {
    while (scan.wanted === 0 && !scan.isCancelled) await waitForWake(scan);
    await yieldToEventLoop(scan);
    if (scan.isCancelled) break;
    const { done, value: chunk } = await chunks.next();
    if (done) return;
    // An empty chunk is a pause. It is not sent, because the main thread adds its own pauses.
    if (chunk.length === 0) continue;
    scan.wanted--;
    const bytes = chunk as Uint8Array<ArrayBuffer>;
    send({ kind: 'chunk', id: scan.id, bytes }, [bytes.buffer]);
  }
  await chunks.return();
}

function waitForWake(scan: Scan): Promise<void> {
  return new Promise((resolve) => {
    scan.wake = resolve;
  });
}

function send(message: FromScanThread, transferred: ArrayBuffer[] = []): void {
  port.postMessage(message, transferred);
}
