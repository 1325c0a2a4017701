/** Sets scheduling parameters of threads: the clock of replays comes first. None of them requires a privilege. */
import { readlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { setPriority } from 'node:os';
import { basename } from 'node:path';
import { setFlagsFromString } from 'node:v8';

/** The addon native/thread. Both functions apply to the calling thread. */
interface NativeThread {
  setTimeSlice(sliceNs: number): void;
  setTimerSlack(slackNs: number): void;
}

const native: NativeThread = createRequire(import.meta.url)('#thread');

/**
 * The shortest slice that the kernel allows, and one longer than its default. Since Linux 6.12 a thread that wakes up
 * need not wait until the slice of a thread with a longer slice is over, up to 4 ms (a tick at 250 Hz), unless it has
 * had more than its share of the CPU: hence the nice value. Lateness of 10,000 deadlines a second in us, p50 / p90 /
 * p99, with a third of the time between them spent awake, beside a thread that computes a third of the time on the same
 * CPU (medians of three runs):
 *
 *   both alike                             70 / 3300 / 4400
 *   the other at nice 19                   30 /  660 / 3650
 *   a slice of 0.1 ms                     240 / 3240 / 4000
 *   a slice of 0.1 ms, the other at 10     30 /   36 /  440
 *   the other with SCHED_IDLE              30 /   37 /  490
 *
 * With two other threads, 12 % were more than 0.2 ms late, and 6 % when their slices were 3 ms. SCHED_IDLE is as good,
 * but when others of its group use all of the CPU, such a thread gets almost none: beside four busy loops it took 20 s
 * to create a session.
 */
const PROMPT_SLICE_NS = 100_000;
const LONG_SLICE_NS = 3_000_000;
const NICE = 10;
/** The smallest timer slack: 0 would select the default, 50 us. */
const SLACK_NS = 1;
/**
 * V8 marks the whole heap again when it has grown by a third, which happens every second with a session of 10,000
 * events/s and takes 45 ms, in steps that each delay due events. When the heap may triple, this happens a tenth as
 * often; the flag holds for all threads.
 */
const HEAP_GROWING_PERCENT = 200;

/** Sets up the thread that waits for the clock. */
export function wakePromptly(): void {
  native.setTimeSlice(PROMPT_SLICE_NS);
  native.setTimerSlack(SLACK_NS);
  setFlagsFromString(`--heap-growing-percent=${HEAP_GROWING_PERCENT}`);
}

/** Sets up a thread that computes much, so that it yields to the clock's thread. */
export function giveWay(): void {
  // A thread inherits the slice of its creator.
  native.setTimeSlice(LONG_SLICE_NS);
  try {
    setPriority(Number(basename(readlinkSync('/proc/thread-self'))), NICE);
  } catch {
    // Without the nice value the kernel divides the CPU equally.
  }
}
