/** Provides one signal for all ways in which a long-running command is asked to end. */

/** Returns a signal that aborts at SIGINT, at SIGTERM, or when the `kreplay up` that started this process has ended. */
export function createEndingSignal(): AbortSignal {
  const ending = new AbortController();
  const end = () => ending.abort();
  process.once('SIGINT', end);
  process.once('SIGTERM', end);
  process.once('disconnect', end);
  // The listener must not keep the process running when there is nothing else to do.
  process.channel?.unref();
  return ending.signal;
}
