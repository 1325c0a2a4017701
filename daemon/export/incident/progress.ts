/** A line that shows the progress to a person at a terminal; it is never written to a pipe. */

const CLEAR_LINE = '\r\u001b[K';
/** An operation that ends sooner needs no line. */
const QUIET_MS = 1000;
const INTERVAL_MS = 200;

export interface Progress {
  /** Shows `text`. Calls may be frequent: `text` is called only when it is shown. */
  tell(text: () => string): void;
  clear(): void;
}

interface Terminal {
  readonly isTTY?: boolean;
  write(text: string): unknown;
}

export function createTerminalProgress(terminal: Terminal, nowMs: () => number): Progress {
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
