/** Ends a connection whose request is refused before all of it has arrived. */
import type { IncomingMessage, ServerResponse } from 'node:http';

/** Time in which a client can read the answer. */
const LINGER_MS = 2_000;

/**
 * Closes the connection after the answer, and reads on for a moment: the kernel resets a connection that is closed with
 * unread bytes, and the client may then lose the answer.
 */
export function closeAfter({ socket }: IncomingMessage, res: ServerResponse): void {
  res.shouldKeepAlive = false;
  socket.destroySoon = () => {
    socket.end();
    const timer = setTimeout(() => socket.destroy(), LINGER_MS).unref();
    socket.once('close', () => clearTimeout(timer));
  };
}
