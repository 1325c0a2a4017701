/**
 * Limits the number of connections. Idle clients could occupy all of them, so the daemon makes room for a new
 * connection: it closes the connection that has waited longest for its client. A connection is safe while the daemon
 * works on its answer.
 *
 *   waiting   c1 c4 c2        c1 goes first; a connection comes here when it opens and when its answer is done
 *   working      c3 c5        closed for room only when the client has read next to nothing for long
 *   kept         c6           opened while all others work: only for /healthz, /readyz and /metrics
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { abortResponse } from '../abort_response.ts';
import { isLocalClient, toClientKey } from './client_address.ts';
import type { Unsent } from './unsent.ts';

/** Reasons for which the daemon closes a connection by itself. */
export const CLOSE_REASONS = {
  made_room: 'it waited for its client, and a new one came',
  not_read: 'its client took next to nothing of its answer, and others wanted the room',
  turned_away: 'all others were at work',
  client_limit: 'its address has its share',
  timeout: 'slow request or handshake',
  tls: 'failed handshake, or not the certificate that is asked for',
  header_too_large: 'headers over 16 KiB',
  malformed: 'not HTTP',
  flooded: 'it sent more requests than may wait for the answers before them',
} as const;
export type CloseReason = keyof typeof CLOSE_REASONS;

export interface ConnectionLimits {
  /** Limit for all clients together. */
  connectionsMax: number;
  /** Limit for one remote address. */
  perClientMax: number;
  /**
   * Whether the address belongs to a proxy for many clients. `perClientMax` does not apply to a proxy or to local
   * addresses.
   */
  isProxy?: (address: string | undefined) => boolean;
  /** Number of extra connections, each for a single answer that costs nothing; none if omitted. */
  keptMax?: number;
  /** Detects answers that their clients do not read. */
  unsent?: Pick<Unsent, 'watch' | 'findStalled' | 'close'>;
  onClosed: (reason: CloseReason) => void;
}

interface ClientConnection {
  key: Socket | string;
  socket: Socket;
  client: string;
  /** Answers in progress. */
  answers: Set<ServerResponse>;
  /** Whether the connection was opened while all others were working. */
  isKept: boolean;
}

export interface LimitedConnections {
  /** Whether the request came over an extra connection, which is reserved for answers that cost nothing. */
  isKept(req: IncomingMessage): boolean;
}

export function limitConnections(
  server: Server,
  { connectionsMax, perClientMax, isProxy = () => false, keptMax = 0, unsent, onClosed }: ConnectionLimits,
): LimitedConnections {
  const open = new Map<Socket | string, ClientConnection>();
  const perClient = new Map<string, number>();
  const waiting = new Set<ClientConnection>();
  let keptCount = 0;

  function forget(connection: ClientConnection): void {
    waiting.delete(connection);
    // A newer connection may already use the same address and port, and therefore the same key.
    if (open.get(connection.key) !== connection) return;
    open.delete(connection.key);
    if (connection.isKept) keptCount--;
    const left = perClient.get(connection.client)! - 1;
    if (left > 0) perClient.set(connection.client, left);
    else perClient.delete(connection.client);
  }

  function makeRoom(reason: CloseReason, mayGo: (connection: ClientConnection) => boolean): boolean {
    for (const connection of waiting) {
      if (!mayGo(connection)) continue;
      forget(connection);
      connection.socket.destroy();
      onClosed(reason);
      return true;
    }
    const findConnection = ({ req }: ServerResponse) => open.get(toSocketKey(req.socket));
    const stalled = unsent?.findStalled((res) => {
      const connection = findConnection(res);
      return connection !== undefined && mayGo(connection);
    });
    if (!stalled) return false;
    // The closed connection is removed at once, because the new connection is counted before `close` is emitted.
    forget(findConnection(stalled)!);
    unsent!.close(stalled);
    return true;
  }

  const areAllTaken = () => open.size - keptCount >= connectionsMax;

  /**
   * Makes room for a connection, if necessary by closing another one. Returns undefined if there is room, `kept` if
   * only an extra connection is available, and otherwise the reason for refusing the connection.
   */
  function findRoom(socket: Socket, client: string): 'client_limit' | 'turned_away' | 'kept' | undefined {
    const isShared = isLocalClient(socket.remoteAddress) || isProxy(socket.remoteAddress);
    const ownFull = !isShared && (perClient.get(client) ?? 0) >= perClientMax;
    if (ownFull && !makeRoom('client_limit', (other) => other.client === client)) return 'client_limit';
    if (!areAllTaken() || makeRoom('made_room', ({ isKept }) => !isKept)) return undefined;
    return keptCount < keptMax || makeRoom('made_room', ({ isKept }) => isKept) ? 'kept' : 'turned_away';
  }

  server.on('connection', (socket: Socket) => {
    const client = toClientKey(socket.remoteAddress);
    const refused = findRoom(socket, client);
    if (refused === 'client_limit' || refused === 'turned_away') {
      onClosed(refused);
      return void socket.destroy();
    }
    const isKept = refused === 'kept';
    const connection: ClientConnection = { key: toSocketKey(socket), socket, client, answers: new Set(), isKept };
    open.set(connection.key, connection);
    if (isKept) keptCount++;
    perClient.set(client, (perClient.get(client) ?? 0) + 1);
    waiting.add(connection);
    socket.once('close', () => forget(connection));
  });

  const closeKnown = server.closeAllConnections.bind(server);
  // All sockets are destroyed here, because the HTTP server does not know connections whose TLS handshake is not
  // complete.
  server.closeAllConnections = () => {
    for (const { answers } of open.values()) for (const res of answers) abortResponse(res);
    closeKnown();
    for (const { socket } of open.values()) socket.destroy();
  };

  server.prependListener('request', (req: IncomingMessage, res: ServerResponse) => {
    const connection = open.get(toSocketKey(req.socket));
    if (!connection) return;
    unsent?.watch(res);
    const beginAnswer = () => {
      connection.answers.add(res);
      waiting.delete(connection);
    };
    if (hasBody(req)) req.once('end', beginAnswer);
    else beginAnswer();
    res.once('close', () => {
      // If a request's body was never read, its `end` event may come after the answer.
      req.off('end', beginAnswer);
      connection.answers.delete(res);
      // A pipelined request may still be in progress.
      if (connection.answers.size > 0) return;
      // The connection moves to the end of the queue, because it has just been used.
      waiting.delete(connection);
      if (open.get(connection.key) === connection) waiting.add(connection);
    });
  });

  return { isKept: (req) => open.get(toSocketKey(req.socket))?.isKept === true };
}

/**
 * Returns a connection's key: the remote address and port. Under TLS, the `connection` event and the request have
 * different socket objects, so a socket object cannot be the key. A unix socket has no port and no TLS, and is its own
 * key.
 */
function toSocketKey(socket: Socket): Socket | string {
  return socket.remotePort === undefined ? socket : `${socket.remoteAddress} ${socket.remotePort}`;
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers['transfer-encoding'] !== undefined || Number(headers['content-length'] ?? 0) > 0;
}
