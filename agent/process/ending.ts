/** One signal for all ways in which a long-running command is asked to end. */

/** Aborts at SIGINT, at SIGTERM, and when the `kreplay up` that started this process is gone. */
export function createEndingSignal(): AbortSignal {
  const ending = new AbortController();
  const end = () => ending.abort();
  process.once('SIGINT', end);
  process.once('SIGTERM', end);
  process.once('disconnect', end);
  // The listener must not keep a process alive that has nothing else to do.
  process.channel?.unref();
  return ending.signal;
}
