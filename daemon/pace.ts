/** One piece of long work between two looks at the sockets, however many answers are being made. */
const waiting: (() => void)[] = [];

/** Resolves when it is the caller's turn. All pieces at once would keep small requests waiting for all of them. */
export function nextPiece(): Promise<void> {
  return new Promise((resolve) => {
    if (waiting.push(resolve) === 1) setImmediate(wake);
  });
}

function wake(): void {
  waiting.shift()!();
  // What is made immediate here runs after the next look at the sockets.
  if (waiting.length > 0) setImmediate(wake);
}
