/** Shows progress in a line on a terminal; nothing is written to a pipe or a file. */

const CLEAR_LINE = '\r\u001b[K';
/** Minimum duration of an operation whose progress is shown. */
const QUIET_MS = 1000;
const INTERVAL_MS = 200;

export interface Progress {
  /** Shows the result of `text`. Frequent calls are cheap, because `text` is called only when the line is redrawn. */
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
