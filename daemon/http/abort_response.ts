import type { ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';

/**
 * Aborts an answer in such a way that no client can mistake it for a complete one. In HTTP/1.1 the last chunk is
 * missing. In HTTP/1.0, which proxies use, an answer extends to the end of its connection, and only a reset differs
 * from a normal end. Under TLS the closing alert is missing instead. A unix socket has no reset.
 */
export function abortResponse(res: ServerResponse): void {
  const { req, socket } = res;
  const canReset = socket instanceof Socket && !(socket instanceof TLSSocket) && socket.remotePort !== undefined;
  if (req.httpVersionMinor === 0 && canReset) socket.resetAndDestroy();
  else res.destroy();
}
