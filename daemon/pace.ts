/** At most one piece of long work runs between two polls of the sockets, however many responses are in progress. */
const waiting: (() => void)[] = [];

/** Resolves when it is the caller's turn. If all pieces ran at once, small requests would wait for all of them. */
export function nextPiece(): Promise<void> {
  return new Promise((resolve) => {
    if (waiting.push(resolve) === 1) setImmediate(wake);
  });
}

function wake(): void {
  waiting.shift()!();
  // An immediate scheduled here runs after the next poll of the sockets.
  if (waiting.length > 0) setImmediate(wake);
}
