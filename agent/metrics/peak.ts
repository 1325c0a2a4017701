/** The highest recent value: also shows what comes and goes between two scrapes. */

const WINDOW_MS = 60_000;

export interface Peak {
  see(value: number): void;
  /** Peak of the current window and the one before it. */
  value(): number;
}

export function createPeak(nowMs: () => number): Peak {
  let windowFromMs = nowMs();
  let before = 0;
  let current = 0;

  function follow(): void {
    const elapsedMs = nowMs() - windowFromMs;
    if (elapsedMs < WINDOW_MS) return;
    before = elapsedMs < 2 * WINDOW_MS ? current : 0;
    current = 0;
    windowFromMs += Math.floor(elapsedMs / WINDOW_MS) * WINDOW_MS;
  }

  return {
    see(value) {
      follow();
      if (value > current) current = value;
    },
    value() {
      follow();
      return Math.max(before, current);
    },
  };
}
