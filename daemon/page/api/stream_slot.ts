/**
 * Maximum number of streams that all tabs of a browser hold together. A browser opens six HTTP/1.1 connections to a
 * host, and a seventh request would wait forever, without an error.
 */
const SLOTS = 4;
const NAME = 'kreplay-stream';

/** Resolves to a function that gives the slot back, or to null if other tabs hold all slots. */
export async function takeSlot(locks: LockManager | undefined = navigator.locks): Promise<(() => void) | null> {
  // Browsers have locks only if the page comes from this host or over HTTPS.
  if (!locks) return () => {};
  for (let slot = 0; slot < SLOTS; slot++) {
    const release = await requestLock(locks, `${NAME}-${slot}`);
    if (release) return release;
  }
  return null;
}

function requestLock(locks: LockManager, name: string): Promise<(() => void) | null> {
  return new Promise((resolve) => {
    locks
      .request(name, { ifAvailable: true }, (lock) => {
        if (!lock) return resolve(null);
        // The lock is held until this promise resolves.
        return new Promise<void>((release) => resolve(() => release()));
      })
      // A browser that denies the page storage may deny it locks, too.
      .catch(() => resolve(() => {}));
  });
}

/** Creates a signal that aborts when the tab is hidden, or when the given signal aborts. */
export function createShownSignal(signal: AbortSignal): AbortSignal {
  const hidden = new AbortController();
  const listener = () => {
    if (document.hidden) hidden.abort();
  };
  document.addEventListener('visibilitychange', listener);
  const either = AbortSignal.any([signal, hidden.signal]);
  either.addEventListener('abort', () => document.removeEventListener('visibilitychange', listener));
  return either;
}

/** Resolves when the tab is shown, or the signal aborts. */
export function waitUntilShown(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const listener = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener('visibilitychange', listener);
      resolve();
    };
    document.addEventListener('visibilitychange', listener);
    signal.addEventListener('abort', listener);
    listener();
  });
}
