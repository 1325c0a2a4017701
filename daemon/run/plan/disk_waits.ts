/**
 * Derives waits for a disk from block requests, for recordings without `sys_sync`: a sync waits for requests that its
 * thread queues outside of its writes, and for the journal's requests that follow.
 *
 *   thread   write |   | fsync ...........................| write
 *   request            [ data ]                                      by the thread
 *   request                    [ journal ] [ commit ]                by the journal's thread
 *   wait               |---------------------------------|
 *
 * No call waits for what a kernel thread writes back by itself. On a node whose syncs are recorded, no wait is derived.
 */

/**
 * Maximum time between two requests of one sync. The thread that queues the next request, the syncing thread or the
 * journal's thread, is woken within this time.
 */
const GAP_NS = 1_000_000;

const JOURNAL = /^(jbd2\/|xfs(aild|-cil|-log|_log)|btrfs-)/;
const KERNEL_THREAD = /^(kworker\/|kswapd\d|ksmd|flush-|loop\d|dmcrypt_|md\d|kcompactd\d|z_)/;

/** The waiting thread, with its context at the start of the wait, because the thread may do other things later. */
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

/** Requests for which no call of a build can be made to wait. */
export interface LeftOutRequests {
  background: number;
  reads: number;
  /** Requests within a recorded call, whose duration already includes these requests. */
  within_calls: number;
  /** Requests outside of their thread's recorded calls, for example in a close, on a node whose syncs are recorded. */
  outside_calls: number;
}

export interface DiskWaits {
  readonly leftOut: Readonly<LeftOutRequests>;
  /**
   * Adds a call; no sync of its thread continues beyond the thread's next call. `call` and `request` must be called in
   * recorded order.
   */
  call(call: { thread: number; node: number; endNs: number; isSync: boolean }): void;
  request(request: BlockRequest): void;
  /** Returns all waits, sorted by start. */
  finish(): DiskWait[];
}

export interface BlockRequest extends WaitingThread {
  comm: string;
  /** Number of the request's (node, device) pair. */
  device: number;
  operation: string;
  startNs: number;
  endNs: number;
}

export function createDiskWaits(): DiskWaits {
  const leftOut: LeftOutRequests = { background: 0, reads: 0, within_calls: 0, outside_calls: 0 };
  /** The latest end of each thread's calls so far. */
  const calledUntil = new Map<number, number>();
  /**
   * The latest end of the syncs so far, for each node with recorded syncs. Until then, the syncs wait for the journal's
   * requests.
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
   * Extends the waits on the device that are still open when the request starts; returns whether a sync was waiting for
   * the request.
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
