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
 * The player's thread has the shortest slice that the kernel allows (native/clock), and a thread that computes much has
 * a longer slice than the default. Since Linux 6.12, a thread that wakes up need not wait for the end of another
 * thread's longer slice, which may take up to 4 ms (a tick at 250 Hz), unless the waking thread has had more than its
 * share of the CPU: hence the nice value. Lateness in us (p50 / p90 / p99) of 10,000 deadlines a second, for a thread
 * that is awake a third of the time between them, while another thread computes a third of the time on the same CPU
 * (medians of three runs):
 *
 *   both alike                             70 / 3300 / 4400
 *   the other at nice 19                   30 /  660 / 3650
 *   a slice of 0.1 ms                     240 / 3240 / 4000
 *   a slice of 0.1 ms, the other at 10     30 /   36 /  440
 *   the other with SCHED_IDLE              30 /   37 /  490
 *
 * With two other threads, 12 % of the deadlines were more than 0.2 ms late, and 6 % if the slices of these threads were
 * 3 ms. SCHED_IDLE is as good, but when other threads of its group use all of the CPU, a thread with SCHED_IDLE gets
 * almost no time: with four busy loops, creating a session took 20 s.
 */
const LONG_SLICE_NS = 3_000_000;
const NICE = 10;

/** Configures a thread that computes much, so that it yields to the player's thread. */
export function giveWay(): void {
  // A thread inherits the slice of its creator.
  native.setTimeSlice(LONG_SLICE_NS);
  try {
    setPriority(Number(basename(readlinkSync('/proc/thread-self'))), NICE);
  } catch {
    // Without the nice value, the kernel divides the CPU equally.
  }
}
