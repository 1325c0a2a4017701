/**
 * Derives waits for a disk from block requests, for recordings without `sys_sync` events. A sync waits for the requests
 * that its thread queues outside of its writes, and for the journal's requests that follow.
 *
 *   thread   write |   | fsync ...........................| write
 *   request            [ data ]                                      by the thread
 *   request                    [ journal ] [ commit ]                by the journal's thread
 *   wait               |---------------------------------|
 *
 * Requests of a kernel thread that writes back dirty pages delay no call. No wait is derived for a node whose syncs
 * were recorded.
 */

/**
 * Maximum time between two requests of one sync. The thread that queues the next request (the syncing thread or the
 * journal's thread) needs less than this time to wake up.
 */
const GAP_NS = 1_000_000;

const JOURNAL = /^(jbd2\/|xfs(aild|-cil|-log|_log)|btrfs-)/;
const KERNEL_THREAD = /^(kworker\/|kswapd\d|ksmd|flush-|loop\d|dmcrypt_|md\d|kcompactd\d|z_)/;

/** The waiting thread, with its owner and file at the start of the wait, because both may change later. */
interface WaitingThread {
  thread: number;
  owner: number;
  node: number;
  /** Stream of the file that the thread syncs; undefined if the file is not known. */
  file: number | undefined;
}

export interface DiskWait extends WaitingThread {
  requestCount: number;
  startNs: number;
  endNs: number;
}

/** Counts of requests from which no wait of a build's call is derived. */
export interface LeftOutRequests {
  background: number;
  reads: number;
  /** Requests during a recorded call. The call's recorded duration includes them. */
  within_calls: number;
  /** Requests outside of recorded calls (for example, during a close) on a node whose syncs were recorded. */
  outside_calls: number;
}

export interface DiskWaits {
  readonly leftOut: Readonly<LeftOutRequests>;
  /** Adds a call, which closes the open waits of its thread. `call` and `request` must be called in recorded order. */
  call(call: { thread: number; node: number; endNs: number; isSync: boolean }): void;
  request(request: BlockRequest): void;
  /** Returns all waits, sorted by start. */
  finish(): DiskWait[];
}

export interface BlockRequest extends WaitingThread {
  comm: string;
  /** Number that identifies the request's node and device. */
  device: number;
  operation: string;
  startNs: number;
  endNs: number;
}

export function createDiskWaits(): DiskWaits {
  const leftOut: LeftOutRequests = { background: 0, reads: 0, within_calls: 0, outside_calls: 0 };
  /** For each thread, the latest end of its calls so far. */
  const calledUntil = new Map<number, number>();
  /**
   * For each node with recorded syncs, the latest end of these syncs so far. Journal requests that start earlier are
   * part of a recorded sync.
   */
  const syncedUntil = new Map<number, number>();
  /** Open waits by device, then by thread. */
  const open = new Map<number, Map<number, DiskWait>>();
  const done: DiskWait[] = [];

  function close(waits: Map<number, DiskWait>, wait: DiskWait): void {
    waits.delete(wait.thread);
    done.push(wait);
  }

  /**
   * Extends the waits on the device that are still open when the journal's request starts. Returns whether any wait was
   * extended.
   */
  function extendAll(device: number, startNs: number, endNs: number): boolean {
    let isAwaited = false;
    const waits = open.get(device);
    if (!waits) return false;
    for (const wait of waits.values()) {
      if (startNs > wait.endNs + GAP_NS) close(waits, wait);
      else {
        wait.endNs = Math.max(wait.endNs, endNs);
        isAwaited = true;
      }
    }
    return isAwaited;
  }

  function own({ thread, owner, node, file, device, startNs, endNs }: BlockRequest): void {
    const waits = open.get(device) ?? new Map<number, DiskWait>();
    open.set(device, waits);
    const wait = waits.get(thread);
    if (wait && startNs <= wait.endNs + GAP_NS) {
      wait.endNs = Math.max(wait.endNs, endNs);
      wait.requestCount++;
      return;
    }
    if (wait) close(waits, wait);
    waits.set(thread, { thread, owner, node, file, requestCount: 1, startNs, endNs });
  }

  return {
    leftOut,
    call({ thread, node, endNs, isSync }) {
      putMax(calledUntil, thread, endNs);
      if (isSync) putMax(syncedUntil, node, endNs);
      for (const waits of open.values()) {
        const wait = waits.get(thread);
        if (wait) close(waits, wait);
      }
    },
    request(request) {
      const { thread, node, comm, device, operation, startNs, endNs } = request;
      if (operation !== 'write' && operation !== 'flush') leftOut.reads++;
      else if (JOURNAL.test(comm)) {
        if (startNs < (syncedUntil.get(node) ?? 0)) leftOut.within_calls++;
        else if (!extendAll(device, startNs, endNs)) leftOut.background++;
      } else if (KERNEL_THREAD.test(comm)) leftOut.background++;
      else if (startNs < (calledUntil.get(thread) ?? 0)) leftOut.within_calls++;
      else own(request);
    },
    finish() {
      for (const waits of open.values()) done.push(...waits.values());
      open.clear();
      const derived = done.filter(({ node }) => !syncedUntil.has(node));
      for (const { node, requestCount } of done) if (syncedUntil.has(node)) leftOut.outside_calls += requestCount;
      return derived.sort((one, other) => one.startNs - other.startNs || one.thread - other.thread);
    },
  };
}

function putMax(map: Map<number, number>, key: number, value: number): void {
  map.set(key, Math.max(value, map.get(key) ?? 0));
}
