/**
 * Maximum number of open streams in all tabs of a browser together. A browser opens at most six HTTP/1.1 connections
 * to a host. Two of them stay free for other requests, which would otherwise wait forever.
 */
const SLOTS = 4;
const NAME = 'kreplay-stream';

/** Resolves to a function that releases the slot, or to null if other tabs use all slots. */
export async function takeSlot(locks: LockManager | undefined = navigator.locks): Promise<(() => void) | null> {
  // Browsers offer locks only to pages from this host or over HTTPS.
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
