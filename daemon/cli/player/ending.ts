/** Signals that end a replay. kreplay.ts raises SIGPIPE itself when the reader has closed the output. */
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGPIPE'] as const;
export type EndSignal = (typeof SIGNALS)[number];

export interface SignalWatch {
  /** The first signal that arrived; undefined if there was none. */
  readonly signal: EndSignal | undefined;
  /** Restores the default effect of signals. */
  release(): void;
}

/**
 * Calls `onSignal` for the first signal. After that, a SIGINT or SIGTERM kills the process, in case `onSignal` has no
 * effect.
 */
export function endOnSignals(onSignal: (signal: EndSignal) => void): SignalWatch {
  let first: EndSignal | undefined;
  const noteSignal = (signal: NodeJS.Signals) => {
    if (first !== undefined) return;
    first = signal as EndSignal;
    process.off('SIGINT', noteSignal).off('SIGTERM', noteSignal);
    onSignal(first);
  };
  for (const signal of SIGNALS) process.on(signal, noteSignal);
  return {
    get signal() {
      return first;
    },
    release() {
      for (const signal of SIGNALS) process.off(signal, noteSignal);
    },
  };
}
