import type { ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';

/**
 * Breaks an answer off so that nobody can take it for whole. In HTTP/1.1 the missing last chunk tells; an answer in
 * HTTP/1.0, which proxies speak, goes up to the end of its connection, and only a reset differs from that end. TLS ends with
 * a word of its own, which is missing then; a unix socket knows no reset.
 */
export function cut(res: ServerResponse): void {
  const { req, socket } = res;
  const canReset = socket instanceof Socket && !(socket instanceof TLSSocket) && socket.remotePort !== undefined;
  if (req.httpVersionMinor === 0 && canReset) socket.resetAndDestroy();
  else res.destroy();
}
