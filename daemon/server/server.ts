/** The listening socket: its address, its limits, and its shutdown. */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { lstatSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type RequestListener, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { connect } from 'node:net';
import type { Duplex } from 'node:stream';
import { type SecureContextOptions, TLSSocket } from 'node:tls';
import { ConfigError, type UserError } from '../../agent/process/errors.ts';
import { noteConnection } from '../base/event_loop.ts';
import { buildProblemBody, Problem } from '../base/problem.ts';
import { type CloseReason, limitConnections } from '../http/access/connections.ts';
import { answerOneAtATime } from '../http/access/one_at_a_time.ts';
import { findMissingProtection } from '../http/access/options.ts';
import { createUnsent, type Unsent } from '../http/access/unsent.ts';
import { type ListenAddress, ListenError, showAddress } from '../http/listen_address.ts';

export const HEADERS_TIMEOUT_MS = 10_000;
export const REQUEST_TIMEOUT_MS = 30_000;
/**
 * The daemon closes idle connections later than proxies do: nginx after 60 s, proxies in Go after 90 s, Caddy after 120
 * s. Otherwise, a proxy might send a request on a connection that the daemon is closing, and the request would be lost.
 */
export const KEEP_ALIVE_TIMEOUT_MS = 125_000;
const HEADERS_MAX = 100;
export const CONNECTIONS_MAX = 1024;
export const CONNECTIONS_PER_CLIENT_MAX = 256;
/** Number of extra connections for programs that monitor the daemon, used when all other connections are working. */
export const KEPT_MAX = 32;
/**
 * Number of connections that the kernel queues until they are accepted, which is the kernel's default limit. A client
 * that finds the queue full tries again only after 1, 3 and 7 s. Node's default of 511 is too small for a thousand
 * clients that connect at once.
 */
const BACKLOG = 4096;
const ANSWERED_ALWAYS = new Set(['/healthz', '/readyz', '/metrics']);

const LIMITS = {
  headersTimeout: HEADERS_TIMEOUT_MS,
  requestTimeout: REQUEST_TIMEOUT_MS,
  // Interval at which both timeouts are checked; Node's default is 30 s.
  connectionsCheckingInterval: 1_000,
};

/** Grace period in which streams can end by themselves when the daemon stops. */
const CLOSE_GRACE_MS = 500;

export interface ListenOptions {
  tls?: SecureContextOptions | undefined;
  /** Whether clients must present a token. */
  tokens?: boolean;
  /** Permits tokens over plain HTTP from other machines. */
  insecureHttp?: boolean;
  /** Whether the address belongs to a proxy, which may have any number of connections. */
  isProxy?: (address: string | undefined) => boolean;
  /** Called with the reason for each connection that is closed, to make room or because of its client's behaviour. */
  onClosed?: (reason: CloseReason) => void;
  /** Accounting of the data that clients have not read. Queries use the same accounting. */
  unsent?: Unsent | undefined;
}

/** Starts the server. Resolves with the server and its address for clients, when connections are accepted. */
export async function listen(
  handler: RequestListener,
  address: ListenAddress,
  options: ListenOptions = {},
): Promise<[Server, string]> {
  const {
    tls,
    isProxy,
    onClosed = () => {},
    unsent = createUnsent({ onClosed: () => onClosed('not_read') }),
  } = options;
  const scheme = tls ? 'https' : 'http';
  const where = showAddress(address, scheme);
  const problem = findMissingProtection(address, {
    hasTokens: options.tokens === true,
    isTls: tls !== undefined,
    isInsecureAllowed: options.insecureHttp === true,
  });
  if (problem !== undefined) throw new ConfigError(problem);
  const oneAtATime = answerOneAtATime(answer, {
    isCheap: ({ url }) => url === '/healthz',
    onFlooded: () => onClosed('flooded'),
  });
  const server = tls
    ? createTlsServer(
        { ...LIMITS, handshakeTimeout: HEADERS_TIMEOUT_MS, ...tls, requestCert: tls.ca !== undefined },
        oneAtATime,
      )
    : createServer(LIMITS, oneAtATime);
  server.keepAliveTimeout = KEEP_ALIVE_TIMEOUT_MS;
  server.maxHeadersCount = HEADERS_MAX;
  const limits = { connectionsMax: CONNECTIONS_MAX, perClientMax: CONNECTIONS_PER_CLIENT_MAX, keptMax: KEPT_MAX };
  const connections = limitConnections(server, { ...limits, ...(isProxy && { isProxy }), unsent, onClosed });
  server.on('connection', noteConnection);
  // Without a listener, Node would refuse an unknown `Expect` header with an answer of its own.
  server.on('checkExpectation', (req, res) => server.emit('request', req, res));
  server.on('clientError', (error: NodeJS.ErrnoException, socket) => {
    const reason = toCloseReason(error, socket);
    if (reason) onClosed(reason);
    answerUnreadable(error, socket);
  });

  function answer(req: IncomingMessage, res: ServerResponse): void {
    if (!connections.isKept(req)) return void handler(req, res);
    // Keep-alive would occupy a connection that is reserved for monitoring.
    res.shouldKeepAlive = false;
    if (ANSWERED_ALWAYS.has(req.url!.split('?')[0]!)) handler(req, res);
    else refuseForNow(res);
  }

  if ('path' in address) await removeDeadSocket(address.path);
  try {
    server.listen({ ...address, backlog: BACKLOG });
    await once(server, 'listening');
  } catch (error) {
    throw listenError(address, where, error as NodeJS.ErrnoException);
  }
  const bound = server.address();
  const port = typeof bound === 'object' ? bound?.port : undefined;
  return [server, showAddress('path' in address ? address : { host: address.host, port: port! }, scheme)];
}

export async function close(server: Server): Promise<void> {
  const closed = once(server, 'close');
  server.close();
  const timer = setTimeout(() => server.closeAllConnections(), CLOSE_GRACE_MS);
  await closed;
  clearTimeout(timer);
}

function listenError(address: ListenAddress, where: string, error: NodeJS.ErrnoException): UserError {
  switch (error.code) {
    case 'EADDRINUSE': {
      const what = 'path' in address ? 'the socket' : `port ${address.port}`;
      const choose = 'path' in address ? 'unix:/another/path' : `127.0.0.1:${address.port + 1}`;
      return new ListenError(
        `${what} is taken (${where}): stop what listens there, or choose another with --listen ${choose}`,
      );
    }
    case 'EACCES':
      return new ConfigError(`no permission to listen on ${where}: choose another with --listen`);
    default:
      return new ListenError(`cannot listen on ${where}: ${error.message}`);
  }
}

/**
 * Removes the socket file of a killed daemon, on which connections are refused. The socket of a running daemon stays.
 */
async function removeDeadSocket(path: string): Promise<void> {
  // A plain file stays, although connecting to it is refused as well.
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

/** Returns the reason why the daemon closes the connection; undefined if the client closed it. */
function toCloseReason({ code = '' }: NodeJS.ErrnoException, socket: Duplex): CloseReason | undefined {
  if (/TIMEOUT$/.test(code)) return 'timeout';
  if (code === 'HPE_HEADER_OVERFLOW') return 'header_too_large';
  if (/^(HPE|ERR_HTTP)_/.test(code)) return 'malformed';
  // If the client's certificate is of another CA, Node reports a connection reset.
  const isRefused = socket instanceof TLSSocket && socket.authorizationError;
  return isRefused || /^ERR_(SSL|TLS)_/.test(code) ? 'tls' : undefined;
}

const UNREADABLE: Readonly<Record<string, [status: number, reason: string]>> = {
  HPE_HEADER_OVERFLOW: [431, 'Request Header Fields Too Large'],
  ERR_HTTP_REQUEST_TIMEOUT: [408, 'Request Timeout'],
};

function refuseForNow(res: ServerResponse): void {
  const problem = new Problem('busy', 'all connections are at work: try again');
  res.writeHead(503, {
    'Content-Type': 'application/problem+json; charset=utf-8',
    'X-Request-Id': randomUUID(),
    'Retry-After': '2',
    Connection: 'close',
  });
  res.end(JSON.stringify(buildProblemBody(problem)));
}

/** Sends a problem as the answer to input that is not a request, because such input never reaches Express. */
function answerUnreadable(error: NodeJS.ErrnoException, socket: Duplex): void {
  // Only errors of HTTP are answered. All other errors concern the connection, which cannot carry an answer: the client
  // has disconnected, or TLS failed.
  if (!socket.writable || !/^(HPE|ERR_HTTP)_/.test(error.code ?? '')) return void socket.destroy();
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
