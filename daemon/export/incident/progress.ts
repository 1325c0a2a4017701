/** One line that tells a person at a terminal how far it is; a pipeline never sees it. */

const CLEAR_LINE = '\r\u001b[K';
/** What is done sooner needs no line. */
const QUIET_MS = 1000;
const INTERVAL_MS = 200;

export interface Progress {
  /** Often and cheaply; `text` is made only when it is shown. */
  tell(text: () => string): void;
  clear(): void;
}

interface Terminal {
  readonly isTTY?: boolean;
  write(text: string): unknown;
}

export function newProgress(terminal: Terminal, nowMs: () => number): Progress {
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
