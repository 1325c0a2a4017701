/** A line that shows progress to a person at a terminal; the line is never written to a pipe. */

const CLEAR_LINE = '\r\u001b[K';
/** Time after which the line appears; a shorter operation needs no line. */
const QUIET_MS = 1000;
const INTERVAL_MS = 200;

export interface Progress {
  /** Shows the result of `text`. Frequent calls are cheap, because `text` is called only when the line is shown. */
  tell(text: () => string): void;
  clear(): void;
}

interface ProgressTerminal {
  readonly isTTY?: boolean;
  write(text: string): unknown;
}

export function createTerminalProgress(terminal: ProgressTerminal, nowMs: () => number): Progress {
  let shown = false;
  let nextMs = nowMs() + QUIET_MS;
  return {
    tell(text) {
      if (!terminal.isTTY || nowMs() < nextMs) return;
      nextMs = nowMs() + INTERVAL_MS;
      shown = true;
      terminal.write(CLEAR_LINE + text());
    },
    clear() {
      if (shown) terminal.write(CLEAR_LINE);
      shown = false;
    },
  };
}
