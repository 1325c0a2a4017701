/** The end of a connection whose request is refused before all of it has come. */
import type { IncomingMessage, ServerResponse } from 'node:http';

/** Enough to read the answer in. */
const LINGER_MS = 2_000;

/**
 * Closes the connection after the answer, and reads on for a moment: the kernel resets a connection that is closed with
 * bytes unread, and the client may lose the answer by that.
 */
export function closeAfter({ socket }: IncomingMessage, res: ServerResponse): void {
  res.shouldKeepAlive = false;
  socket.destroySoon = () => {
    socket.end();
    const timer = setTimeout(() => socket.destroy(), LINGER_MS).unref();
    socket.once('close', () => clearTimeout(timer));
  };
}
