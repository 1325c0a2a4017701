/** The socket of a service: reports its state and takes no input. It costs nothing until a client connects. */
import { chmodSync, lstatSync, rmSync, statSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';

const CONNECTIONS_MAX = 16;
/** A client that does not read is disconnected after this time. */
const ASKER_TIMEOUT_MS = 2000;
/** The read permissions in a file's mode. */
const READ_BITS = 0o444;

export interface ReportSocket {
  close(): void;
}

export interface ReportSocketOptions {
  /** A file or folder. Users who may read it may also read the report. */
  readableAs: string;
  /** Called if the socket is not available; the service works without it. */
  onProblem: (message: string) => void;
}

/**
 * Opens the socket. An existing socket at `path` is removed: it was left by a killed service, because no other service
 * may use this path.
 */
export function openReportSocket(
  path: string,
  report: () => object,
  { readableAs, onProblem }: ReportSocketOptions,
): ReportSocket {
  let open = true;
  const server = createServer((socket) => {
    // The connection may have been accepted just before the close. Then there is nothing to report any more.
    if (open) answer(socket, report);
    else socket.destroy();
  });
  server.maxConnections = CONNECTIONS_MAX;
  server.on('error', (error) => onProblem(`the metrics of this process cannot be read: ${error.message}`));
  server.on('listening', () => {
    const { mode } = statSync(readableAs);
    // Connecting requires write permission, so read permissions become write permissions.
    chmodSync(path, 0o600 | ((mode & READ_BITS) >> 1));
  });
  if (lstatSync(path, { throwIfNoEntry: false })?.isSocket()) rmSync(path);
  server.listen(path);
  server.unref();
  return {
    close() {
      open = false;
      server.close();
    },
  };
}

function answer(socket: Socket, report: () => object): void {
  socket.on('error', () => {});
  socket.setTimeout(ASKER_TIMEOUT_MS, () => socket.destroy());
  socket.unref();
  socket.end(JSON.stringify(report()));
  // Closes the connection without reading any input.
  socket.destroySoon();
}
