import type { ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';

/**
 * Aborts an answer so that the client can detect that it is incomplete. In HTTP/1.1, the last chunk is missing. In
 * HTTP/1.0, which proxies use, an answer ends with its connection: a TCP connection is reset, and under TLS the closing
 * alert is missing. A unix socket cannot be reset, so an HTTP/1.0 client on a unix socket cannot detect an aborted
 * answer.
 */
export function abortResponse(res: ServerResponse): void {
  const { req, socket } = res;
  const canReset = socket instanceof Socket && !(socket instanceof TLSSocket) && socket.remotePort !== undefined;
  if (req.httpVersionMinor === 0 && canReset) socket.resetAndDestroy();
  else res.destroy();
}
