/**
 * Waits for a disk, found in block requests. No call of the fsync family is recorded, but what it waits for is: requests
 * that the thread queues outside of its writes, and those of the journal that follow.
 *
 *   thread   write |   | fsync ...........................| write
 *   request            [ data ]                                      by the thread
 *   request                    [ journal ] [ commit ]                by the journal's thread
 *   wait               |---------------------------------|
 *
 * What a kernel thread writes back by itself made nobody wait.
 */

/** Requests of one sync follow one another within it: between them a thread is woken, the syncing one or the journal's. */
const GAP_NS = 1_000_000;

const JOURNAL = /^(jbd2\/|xfs(aild|-cil|-log|_log)|btrfs-)/;
const KERNEL_THREAD = /^(kworker\/|kswapd\d|ksmd|flush-|loop\d|dmcrypt_|md\d|kcompactd\d|z_)/;

/** Whose wait it is when it begins: later the thread may do other things. */
interface Waiting {
  thread: number;
  owner: number;
  /** Stream of the file that it syncs, as far as that is known. */
  file: number | undefined;
}

export interface DiskWait extends Waiting {
  startNs: number;
  endNs: number;
}

/** Requests that no call of a build can be made to wait for. */
export interface LeftOut {
  background: number;
  reads: number;
  /** Within a write of the thread, whose duration has it already. */
  within_writes: number;
}

export interface DiskWaits {
  readonly leftOut: Readonly<LeftOut>;
  /** In recorded order, as `request`: no sync of the thread goes on beyond its next write. */
  write(thread: number, endNs: number): void;
  request(request: BlockRequest): void;
  /** All of them, by start. */
  finish(): DiskWait[];
}

export interface BlockRequest extends Waiting {
  comm: string;
  /** Number of (node, device). */
  device: number;
  operation: string;
  startNs: number;
  endNs: number;
}

export function newDiskWaits(): DiskWaits {
  const leftOut: LeftOut = { background: 0, reads: 0, within_writes: 0 };
  const writtenUntil = new Map<number, number>();
  /** By device, by thread. */
  const open = new Map<number, Map<number, DiskWait>>();
  const done: DiskWait[] = [];

  function close(waits: Map<number, DiskWait>, wait: DiskWait): void {
    waits.delete(wait.thread);
    done.push(wait);
  }

  /** Whether a sync was waiting for it. */
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

  function own({ thread, owner, file, device, startNs, endNs }: BlockRequest): void {
    const waits = open.get(device) ?? new Map<number, DiskWait>();
    open.set(device, waits);
    const wait = waits.get(thread);
    if (wait && startNs <= wait.endNs + GAP_NS) {
      wait.endNs = Math.max(wait.endNs, endNs);
      return;
    }
    if (wait) close(waits, wait);
    waits.set(thread, { thread, owner, file, startNs, endNs });
  }

  return {
    leftOut,
    write(thread, endNs) {
      writtenUntil.set(thread, Math.max(endNs, writtenUntil.get(thread) ?? 0));
      for (const waits of open.values()) {
        const wait = waits.get(thread);
        if (wait) close(waits, wait);
      }
    },
    request(request) {
      const { thread, comm, device, operation, startNs, endNs } = request;
      if (operation !== 'write' && operation !== 'flush') leftOut.reads++;
      else if (JOURNAL.test(comm)) leftOut.background += extendAll(device, startNs, endNs) ? 0 : 1;
      else if (KERNEL_THREAD.test(comm)) leftOut.background++;
      else if (startNs < (writtenUntil.get(thread) ?? 0)) leftOut.within_writes++;
      else own(request);
    },
    finish() {
      for (const waits of open.values()) done.push(...waits.values());
      open.clear();
      return done.sort((one, other) => one.startNs - other.startNs || one.thread - other.thread);
    },
  };
}
