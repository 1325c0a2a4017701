/** Signals that end a replay. SIGPIPE is also what the front door makes of an output that its reader has closed. */
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGPIPE'] as const;
export type EndSignal = (typeof SIGNALS)[number];

export interface Ending {
  /** The first that came. */
  readonly signal: EndSignal | undefined;
  /** Signals have their usual effect again. */
  release(): void;
}

/** `onSignal` is called for the first one; a second SIGINT or SIGTERM kills, should the first not have been enough. */
export function endOnSignals(onSignal: (signal: EndSignal) => void): Ending {
  let first: EndSignal | undefined;
  const listener = (signal: NodeJS.Signals) => {
    if (first !== undefined) return;
    first = signal as EndSignal;
    process.off('SIGINT', listener).off('SIGTERM', listener);
    onSignal(first);
  };
  for (const signal of SIGNALS) process.on(signal, listener);
  return {
    get signal() {
      return first;
    },
    release() {
      for (const signal of SIGNALS) process.off(signal, listener);
    },
  };
}
