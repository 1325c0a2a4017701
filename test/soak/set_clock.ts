/** A wall clock for one process, which a test can set. */
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Loss } from '../../agent/recording/format/losses.ts';

const SOURCE = join(import.meta.dirname, 'set_clock.c');
/** Retention uses this clock: it must not remove what no look has seen. */
const OFF_BY_MAX_NS = 2_500_000_000;
/** When a loss is reported, the process may not have read the clock again since it was set. */
const NOTICED_WITHIN_NS = 1_000_000_000n;

/** From `fromNs` on, by the machine's own clock, the process's clock was off by `offByNs`. */
export interface ClockSpan {
  fromNs: bigint;
  offByNs: bigint;
}

export interface SetClock {
  /** Goes before a command that is to have this clock. */
  command: readonly string[];
  spans: readonly ClockSpan[];
  /** Sets it ahead of the machine's own clock or behind it, by up to 2.5 s. */
  set(random: () => number): void;
}

export function newSetClock(folder: string): SetClock {
  const library = join(folder, 'set_clock.so');
  const file = join(folder, 'off_by_ns');
  const spans = [{ fromNs: wallClockNs(), offByNs: 0n }];
  const write = (ns: bigint) => writeFileSync(file, new BigInt64Array([ns]), { flag: 'r+' });
  execFileSync('gcc', ['-O2', '-Wall', '-Wextra', '-Werror', '-shared', '-fPIC', '-o', library, SOURCE]);
  writeFileSync(file, new BigInt64Array(1));
  return {
    command: ['env', `LD_PRELOAD=${library}`, `SET_CLOCK=${file}`],
    spans,
    set(random) {
      const offByNs = BigInt(Math.round((2 * random() - 1) * OFF_BY_MAX_NS));
      write(offByNs);
      spans.push({ fromNs: wallClockNs(), offByNs });
    },
  };
}

/** The machine's own clock, in nanoseconds since the epoch. */
export function wallClockNs(): bigint {
  return BigInt(Date.now()) * 1_000_000n;
}

/** The loss by the machine's own clock, with its widest range: a time of the process may belong to two spans. */
export function onTheMachinesClock(loss: Loss, spans: readonly ClockSpan[]): Loss {
  const times = spans.flatMap(({ fromNs: beganNs, offByNs }, i) => {
    const endedNs = spans[i + 1]?.fromNs;
    const [fromNs, toNs] = [loss.fromNs - offByNs, loss.toNs - offByNs];
    const isOver = endedNs !== undefined && fromNs > endedNs + NOTICED_WITHIN_NS;
    return isOver || toNs < beganNs - NOTICED_WITHIN_NS ? [] : [{ fromNs, toNs }];
  });
  const fromNs = times.map((time) => time.fromNs).reduce((a, b) => (a < b ? a : b));
  const toNs = times.map((time) => time.toNs).reduce((a, b) => (a > b ? a : b));
  return { ...loss, fromNs, toNs };
}
