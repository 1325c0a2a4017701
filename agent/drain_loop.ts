/**
 * The agent's loop while it records: it sleeps until records come, lets the recorder empty the rings, and has the writer
 * flush. The loop ends when the agent is stopped, or when the recording's files are removed, replaced, moved,
 * overwritten or damaged.
 */
import { setImmediate, setTimeout as sleep } from 'node:timers/promises';
import type { Probes } from './capture/probes.ts';
import type { Recorder } from './capture/recorder.ts';
import type { WallClock } from './capture/wall_clock.ts';
import type { AgentCounts } from './metrics/counts.ts';
import type { OwnFiles } from './recording/write/own_files.ts';
import type { WriterThread } from './recording/write/writer_thread.ts';

/** Interval between drain passes while records come: an event must be queryable within 250 ms of its end. */
const DRAIN_AFTER_MS = 160;
/** Minimum pause between checks of publishers. */
const CHECK_AFTER_MS = 40;
/** Poll interval while the writer has no room; this state lasts only a short time. */
const ROOM_POLL_MS = 5;
/** Interval at which the clock and the losses are checked even if no events arrive. */
const IDLE_DRAIN_AFTER_MS = 1000;
/** Number of pending bytes that leads to a drain pass at once. */
const DRAIN_AT_BYTES = 512 << 10;
const FLUSH_AFTER_MS = 100;
/**
 * Interval at which the loop checks whether the recording's files were removed, replaced or moved. The writer notices
 * if they are overwritten.
 */
const FILES_POLL_MS = 2000;
/** Pause after a snapshot of the calls and requests in progress, as a multiple of the snapshot's CPU time. */
const SNAPSHOT_REST_TIMES = 200;
/**
 * Maximum pause between snapshots. Query results are complete only up to the last snapshot, so a longer pause delays
 * them.
 */
const SNAPSHOT_REST_MS_MAX = 1000;
/**
 * Minimum pause per call or request that a snapshot found. All of them are written at every change, so a long list is
 * written less often.
 */
const SNAPSHOT_MS_EACH = 1;
/** Above this number of pending bytes, as in a flood, snapshots are delayed: they are slow on a busy machine. */
const SNAPSHOT_AT_BYTES_MAX = 2 << 20;
/** Maximum wait for an unfinished record. An interrupted BPF program resumes much sooner. */
const UNFINISHED_RECORD_MS = 1000;

/** The progress of the loop, which other parts of the agent watch. */
export interface DrainProgress {
  /** Time of the loop's last turn. */
  polledMs: number;
  /** All events that began before this time have been taken out of the rings, or are known to be in progress. */
  completeNs: bigint;
}

/** The events that were in the rings at a snapshot. */
interface RingBacklog {
  snapshotNs: bigint;
  isDrained(): boolean;
}

export interface DrainParts {
  recorder: Recorder;
  probes: Probes;
  writer: WriterThread;
  clock: WallClock;
  counts: AgentCounts;
  progress: DrainProgress;
  files: OwnFiles;
}

/**
 * Moves the contents of the rings into the recording until `signal` aborts or the recording's files are no longer in
 * place. Then detaches the probes and drains the rest.
 */
export async function drainUntil(signal: AbortSignal, parts: DrainParts): Promise<void> {
  const { recorder, probes, writer, clock, counts, progress, files } = parts;
  let filesSeenMs = performance.now();
  let lastDrainMs = 0;
  let flushedMs = 0;
  let hasRoom = true;
  let isFillingUp = false;
  let waiting: RingBacklog | undefined;
  let nextSnapshotMs = 0;
  while (!signal.aborted) {
    const nowMs = performance.now();
    progress.polledMs = nowMs;
    if (nowMs - filesSeenMs >= FILES_POLL_MS) {
      filesSeenMs = nowMs;
      if (!files.areThere()) break;
    }
    if (writer.isOverwritten() || writer.damage()) break;
    const pendingBytes = probes.pendingBytes();
    counts.seeRing(probes.events.takePeakBytes());
    const drainAfterMs = pendingBytes > 0 ? DRAIN_AFTER_MS : IDLE_DRAIN_AFTER_MS;
    if (isFillingUp || pendingBytes >= DRAIN_AT_BYTES || nowMs - lastDrainMs >= drainAfterMs) {
      lastDrainMs = nowMs;
      const snapshotAtMs =
        pendingBytes <= SNAPSHOT_AT_BYTES_MAX ? nextSnapshotMs : nextSnapshotMs + SNAPSHOT_REST_MS_MAX;
      if (!waiting && nowMs >= snapshotAtMs) waiting = takeSnapshot();
      hasRoom = recorder.drain() !== undefined;
      const isDrained = waiting?.isDrained() ?? false;
      recorder.settleInProgress(isDrained);
      if (isDrained) {
        recorder.recordShed();
        progress.completeNs = waiting!.snapshotNs;
        waiting = undefined;
      }
      if (nowMs - flushedMs >= FLUSH_AFTER_MS) {
        flushedMs = nowMs;
        writer.flush(progress.completeNs);
      }
    }
    isFillingUp = false;
    if (!hasRoom) await sleep(ROOM_POLL_MS);
    else isFillingUp = await rest(recorder.checkPublishers(performance.now()));
  }
  // Takes the last snapshot before the probes are detached. Detaching takes a while, and the end of a request would go
  // unnoticed meanwhile.
  const { snapshotNs } = takeSnapshot();
  probes.detach();
  const isDrained = await drainAll();
  recorder.settleInProgress(isDrained);
  recorder.recordShed();
  if (isDrained) progress.completeNs = snapshotNs;

  /**
   * Waits until the rings are to be drained, or until `checkAtMs`, when publishers are to be checked. Returns whether a
   * ring fills up.
   */
  async function rest(checkAtMs: number): Promise<boolean> {
    const pendingBytes = probes.pendingBytes();
    if (pendingBytes >= DRAIN_AT_BYTES) {
      await setImmediate();
      return false;
    }
    const nowMs = performance.now();
    const drainAtMs = lastDrainMs + (pendingBytes > 0 ? DRAIN_AFTER_MS : IDLE_DRAIN_AFTER_MS);
    const wakeAtMs = Math.min(drainAtMs, Math.max(checkAtMs, nowMs + CHECK_AFTER_MS));
    return probes.sleep({ timeoutMs: Math.max(1, wakeAtMs - nowMs), signal });
  }

  /**
   * Finds the calls and requests in progress and marks the events in the rings. Reads the clock first. So every
   * event that began at least `foundNs` before that reading is drained, in the rings or in progress, even if this loop
   * is delayed.
   */
  function takeSnapshot(): RingBacklog {
    const before = process.threadCpuUsage();
    const nowNs = clock.nowNs();
    const { found, foundNs } = recorder.findInProgress();
    // Uses the CPU time, because on a busy machine a snapshot lasts much longer than its CPU time.
    const { user, system } = process.threadCpuUsage(before);
    const restMs = Math.max((SNAPSHOT_REST_TIMES * (user + system)) / 1000, SNAPSHOT_MS_EACH * found);
    nextSnapshotMs = performance.now() + Math.min(restMs, SNAPSHOT_REST_MS_MAX);
    return { snapshotNs: nowNs - BigInt(foundNs), isDrained: probes.events.markBacklog() };
  }

  /**
   * Drains the rings. No BPF program starts a record any more, but an interrupted program may have to finish one, and
   * this record hides all later records. Returns false if that takes too long.
   */
  async function drainAll(): Promise<boolean> {
    let drainedMs = performance.now();
    for (;;) {
      const drained = recorder.drain();
      recorder.settleInProgress(false);
      if (drained !== 0) drainedMs = performance.now();
      else if (probes.pendingBytes() === 0) return true;
      else if (performance.now() - drainedMs >= UNFINISHED_RECORD_MS) return false;
      writer.flush(progress.completeNs);
      await sleep(drained === undefined ? ROOM_POLL_MS : 0);
    }
  }
}
