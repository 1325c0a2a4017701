/** How much of the CPUs idles, as the kernel counts it for the whole machine. */
import { readFileSync } from 'node:fs';

export interface Cpus {
  /** Counts from now on. */
  restart(): void;
  /** The share of CPU time that has idled since the count began; 0 as long as the count is younger than `spanMs`. */
  idleShare(spanMs: number): number;
}

export function watchCpus(
  readStat = () => readFileSync('/proc/stat', 'latin1'),
  readNowMs = () => performance.now(),
): Cpus {
  let from = read();

  function read() {
    return { ...ticksOf(readStat()), atMs: readNowMs() };
  }

  return {
    restart() {
      from = read();
    },
    idleShare(spanMs) {
      const now = read();
      if (now.atMs - from.atMs < spanMs) return 0;
      const share = (now.idle - from.idle) / Math.max(now.all - from.all, 1);
      // Another look is about the time after this one.
      from = now;
      return share;
    },
  };
}

/** The first line has: user, nice, system, idle, iowait, irq, softirq, steal. What follows is within user and nice. */
function ticksOf(stat: string): { all: number; idle: number } {
  const ticks = stat.slice(0, stat.indexOf('\n')).trim().split(/ +/).slice(1, 9).map(Number);
  return { all: ticks.reduce((sum, one) => sum + one, 0), idle: ticks[3]! + ticks[4]! };
}
