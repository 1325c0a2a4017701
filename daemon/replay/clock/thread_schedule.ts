/** When the kernel gives a CPU to the threads of a replay. None of it takes a privilege. */
import { readlinkSync } from 'node:fs';
import { createRequire } from 'node:module';
import { setPriority } from 'node:os';
import { basename } from 'node:path';
import { setFlagsFromString } from 'node:v8';

/** native/thread, for the thread that calls. */
interface NativeThread {
  setTimeSlice(sliceNs: number): void;
  setTimerSlack(slackNs: number): void;
}

const native: NativeThread = createRequire(import.meta.url)('#thread');

/**
 * The least that the kernel gives, and more than it usually does. Since Linux 6.12 a thread that wakes up need not wait
 * until the slice of one with a longer slice is over, up to 4 ms (a tick at 250 Hz), unless it has had more of the CPU
 * than its share: hence the nice value. Lateness of 10,000 deadlines a second in us, p50 / p90 / p99, with a third of
 * the time between them spent awake, beside a thread that computes a third of the time on the same CPU (medians of
 * three runs):
 *
 *   both alike                             70 / 3300 / 4400
 *   the other at nice 19                   30 /  660 / 3650
 *   a slice of 0.1 ms                     240 / 3240 / 4000
 *   a slice of 0.1 ms, the other at 10     30 /   36 /  440
 *   the other with SCHED_IDLE              30 /   37 /  490
 *
 * With two others, 12 % were more than 0.2 ms late, and 6 % when their slices were 3 ms. SCHED_IDLE is as good, but where
 * others of its group want all of the CPU that thread gets next to nothing: beside four busy loops it took 20 s to make
 * a session.
 */
const PROMPT_SLICE_NS = 100_000;
const LONG_SLICE_NS = 3_000_000;
const NICE = 10;
/** 0 would be the default, 50 us. */
const SLACK_NS = 1;
/**
 * V8 marks the whole heap again when it has grown by a third, which with a session of 10,000 events/s is each second and
 * takes 45 ms, in parts of which each delays what is due. When it may triple it is a tenth as often, for the planner's too.
 */
const HEAP_GROWING_PERCENT = 200;

/** For the thread that waits for the clock. */
export function wakePromptly(): void {
  native.setTimeSlice(PROMPT_SLICE_NS);
  native.setTimerSlack(SLACK_NS);
  setFlagsFromString(`--heap-growing-percent=${HEAP_GROWING_PERCENT}`);
}

/** For a thread that computes what is wanted later. */
export function giveWay(): void {
  // It begins with what the thread has that made it.
  native.setTimeSlice(LONG_SLICE_NS);
  try {
    setPriority(Number(basename(readlinkSync('/proc/thread-self'))), NICE);
  } catch {
    // Then the kernel shares alike.
  }
}
