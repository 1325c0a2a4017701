/**
 * Sets scheduling parameters of threads, so that the player of replays takes precedence. None of these settings
 * requires a privilege.
 */
import { readlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { setPriority } from 'node:os';
import { basename } from 'node:path';

/** The part of the addon native/system that this file calls. */
interface NativeSystem {
  /** Sets the time slice of the calling thread. */
  setTimeSlice(sliceNs: number): void;
}

const native: NativeSystem = createRequire(import.meta.url)('#system');

/**
 * Scheduling of threads that compute much. The player's thread has the shortest time slice that the kernel allows
 * (native/clock), and these threads get a slice longer than the default. Since Linux 6.12, a waking thread may preempt
 * a thread with a longer slice; otherwise it waits until that slice ends, up to 4 ms (a tick at 250 Hz). A waking
 * thread that has used more than its share of the CPU may not preempt, so these threads also get a nice value. The
 * table shows the lateness in us (p50 / p90 / p99) of 10,000 deadlines a second. The measured thread is awake a third
 * of the time between deadlines, while another thread computes a third of the time on the same CPU (medians of three
 * runs):
 *
 *   same settings for both threads             70 / 3300 / 4400
 *   other thread at nice 19                    30 /  660 / 3650
 *   slice of 0.1 ms                           240 / 3240 / 4000
 *   slice of 0.1 ms, other thread at nice 10   30 /   36 /  440
 *   other thread with SCHED_IDLE               30 /   37 /  490
 *
 * With two other threads, 12 % of the deadlines were more than 0.2 ms late, and 6 % if the slices of these threads were
 * 3 ms. SCHED_IDLE gives the same lateness, but when other threads of its group use all of the CPU, a thread with
 * SCHED_IDLE gets almost no time: with four busy loops, creating a session took 20 s.
 */
const LONG_SLICE_NS = 3_000_000;
const NICE = 10;

/** Configures a thread that computes much, so that it yields to the player's thread. */
export function giveWay(): void {
  // A thread inherits the slice of its creator, so each thread must set its own.
  native.setTimeSlice(LONG_SLICE_NS);
  try {
    setPriority(Number(basename(readlinkSync('/proc/thread-self'))), NICE);
  } catch {
    // Without the nice value, the kernel divides the CPU equally.
  }
}
