/** The listening socket: where, with which limits, and how it ends. */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { lstatSync, rmSync } from 'node:fs';
import { createServer, type RequestListener, type Server } from 'node:http';
import { connect, isIP } from 'node:net';
import type { Duplex } from 'node:stream';

export type ListenAddress = { host: string; port: number } | { path: string };

/** A start that can not work; the message is the one line that the user sees. */
export class ListenError extends Error {
  override readonly name = 'ListenError';
}

const HEADERS_TIMEOUT_MS = 10_000;
const REQUEST_TIMEOUT_MS = 30_000;
const KEEP_ALIVE_TIMEOUT_MS = 5_000;
const HEADERS_MAX = 100;
const CONNECTIONS_MAX = 1024;

/** What a stream in flight gets to end by itself at the end of the daemon. */
const CLOSE_GRACE_MS = 500;

/** `127.0.0.1:7467`, `[::1]:7467`, `localhost:0`, `unix:/run/kreplay.sock`; undefined for anything else. */
export function parseListen(text: string): ListenAddress | undefined {
  if (text.startsWith('unix:')) return text.length > 5 ? { path: text.slice(5) } : undefined;
  const match = /^(?:\[([0-9a-f:.]+)\]|([^:[\]/\s]+)):(\d{1,5})$/i.exec(text);
  const port = Number(match?.[3]);
  return match && port <= 65_535 ? { host: (match[1] ?? match[2])!, port } : undefined;
}

/** Without tokens nobody else may reach the daemon. */
function isLocal(address: ListenAddress): boolean {
  if ('path' in address) return true;
  if (isIP(address.host) === 4) return address.host.startsWith('127.');
  return address.host === '::1' || address.host.toLowerCase() === 'localhost';
}

/** Resolves with the address that clients use, when connections are accepted. */
export async function listen(handler: RequestListener, address: ListenAddress): Promise<[Server, string]> {
  if (!isLocal(address))
    throw new ListenError(
      `refusing to listen on ${show(address)}: without tokens the daemon serves only this machine; use 127.0.0.1, [::1] or unix:/path`,
    );
  const server = createServer({ headersTimeout: HEADERS_TIMEOUT_MS, requestTimeout: REQUEST_TIMEOUT_MS }, handler);
  server.keepAliveTimeout = KEEP_ALIVE_TIMEOUT_MS;
  server.maxHeadersCount = HEADERS_MAX;
  server.maxConnections = CONNECTIONS_MAX;
  server.on('clientError', answerUnreadable);
  if ('path' in address) await removeDeadSocket(address.path);
  try {
    server.listen(address);
    await once(server, 'listening');
  } catch (error) {
    throw listenError(address, error as NodeJS.ErrnoException);
  }
  const bound = server.address();
  const port = typeof bound === 'object' ? bound?.port : undefined;
  return [server, show('path' in address ? address : { host: address.host, port: port! })];
}

export async function close(server: Server): Promise<void> {
  const closed = once(server, 'close');
  server.close();
  const timer = setTimeout(() => server.closeAllConnections(), CLOSE_GRACE_MS);
  await closed;
  clearTimeout(timer);
}

function show(address: ListenAddress): string {
  if ('path' in address) return `unix:${address.path}`;
  const host = isIP(address.host) === 6 ? `[${address.host}]` : address.host;
  return `http://${host}:${address.port}`;
}

function listenError(address: ListenAddress, error: NodeJS.ErrnoException): ListenError {
  const where = show(address);
  switch (error.code) {
    case 'EADDRINUSE': {
      const what = 'path' in address ? 'the socket' : `port ${address.port}`;
      const choose = 'path' in address ? 'unix:/another/path' : `127.0.0.1:${address.port + 1}`;
      return new ListenError(
        `${what} is taken (${where}): stop what listens there, or choose another with --listen ${choose}`,
      );
    }
    case 'EACCES':
      return new ListenError(`no permission to listen on ${where}: choose another with --listen`);
    default:
      return new ListenError(`can not listen on ${where}: ${error.message}`);
  }
}

/** A daemon that was killed leaves its socket file behind; one that lives answers on it. */
async function removeDeadSocket(path: string): Promise<void> {
  // Connecting to a plain file is refused as well.
  if (!lstatSync(path, { throwIfNoEntry: false })?.isSocket()) return;
  const socket = connect(path);
  try {
    await once(socket, 'connect');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ECONNREFUSED') rmSync(path);
  } finally {
    socket.destroy();
  }
}

const UNREADABLE: Readonly<Record<string, [status: number, reason: string]>> = {
  HPE_HEADER_OVERFLOW: [431, 'Request Header Fields Too Large'],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'Request Timeout'],
};

/** What never became a request passes by Express; it gets the same kind of answer. */
function answerUnreadable(error: NodeJS.ErrnoException, socket: Duplex): void {
  if (!socket.writable || error.code === 'ECONNRESET') return void socket.destroy();
  const [status, reason] = UNREADABLE[error.code ?? ''] ?? [400, 'Bad Request'];
  const code = 'malformed_request';
  const detail = 'this is not a request in HTTP that the daemon can read';
  const body = JSON.stringify({ type: `urn:kreplay:error:${code}`, title: reason, status, detail, code });
  socket.end(
    [
      `HTTP/1.1 ${status} ${reason}`,
      'Content-Type: application/problem+json; charset=utf-8',
      `Content-Length: ${Buffer.byteLength(body)}`,
      `X-Request-Id: ${randomUUID()}`,
      'Connection: close',
      '',
      body,
    ].join('\r\n'),
  );
}
