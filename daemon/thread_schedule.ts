/** Sets scheduling parameters of threads, so that the player of replays comes first. None requires a privilege. */
import { readlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { setPriority } from 'node:os';
import { basename } from 'node:path';

/** The addon native/system, as far as this file calls it. */
interface NativeSystem {
  /** Applies to the calling thread. */
  setTimeSlice(sliceNs: number): void;
}

const native: NativeSystem = createRequire(import.meta.url)('#system');

/**
 * The player's thread has the shortest slice that the kernel allows (native/clock), and a thread that computes much has
 * a longer one than the default. Since Linux 6.12 a thread that wakes up need not wait until the slice of a thread with
 * a longer slice is over, up to 4 ms (a tick at 250 Hz), unless it has had more than its share of the CPU: hence the
 * nice value. Lateness of 10,000 deadlines a second in us, p50 / p90 / p99, with a third of the time between them spent
 * awake, while another thread computes a third of the time on the same CPU (medians of three runs):
 *
 *   both alike                             70 / 3300 / 4400
 *   the other at nice 19                   30 /  660 / 3650
 *   a slice of 0.1 ms                     240 / 3240 / 4000
 *   a slice of 0.1 ms, the other at 10     30 /   36 /  440
 *   the other with SCHED_IDLE              30 /   37 /  490
 *
 * With two other threads, 12 % were more than 0.2 ms late, and 6 % when their slices were 3 ms. SCHED_IDLE is as good,
 * but when other threads of its group use all of the CPU, the thread gets almost none: with four busy loops, creating a
 * session took 20 s.
 */
const LONG_SLICE_NS = 3_000_000;
const NICE = 10;

/** Sets up a thread that computes much, so that it yields to the player's thread. */
export function giveWay(): void {
  // A thread inherits the slice of its creator.
  native.setTimeSlice(LONG_SLICE_NS);
  try {
    setPriority(Number(basename(readlinkSync('/proc/thread-self'))), NICE);
  } catch {
    // Without the nice value the kernel divides the CPU equally.
  }
}
