/** The agent's socket: reports the agent's state and takes no input. It costs nothing until a client asks. */
import { chmodSync, lstatSync, rmSync, statSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { dirname, join } from 'node:path';
import { AGENT_SOCKET, type AgentReport } from '../../bpf/schema/agent_report.ts';

const CONNECTIONS_MAX = 16;
/** A client that does not read is disconnected after this time. */
const ASKER_TIMEOUT_MS = 2000;
/** Read permissions in a file's mode. */
const READ_BITS = 0o444;

export interface ReportSocket {
  close(): void;
}

/**
 * Every user who may read the recording may ask. `onProblem` is called when there is no socket, which recording does
 * not need. The caller must hold the recording's lock, so that an existing socket is that of an agent that was killed.
 */
export function openReportSocket(
  recording: string,
  report: () => AgentReport,
  onProblem: (message: string) => void,
): ReportSocket {
  const path = join(dirname(recording), AGENT_SOCKET);
  let open = true;
  const server = createServer((socket) => {
    // The connection may have been accepted just before the close, and the agent has nothing to report any more.
    if (open) answer(socket, report);
    else socket.destroy();
  });
  server.maxConnections = CONNECTIONS_MAX;
  server.on('error', (error) => onProblem(`the metrics of this agent cannot be read: ${error.message}`));
  server.on('listening', () => {
    const { mode } = statSync(recording);
    // Connecting requires write permission.
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

function answer(socket: Socket, report: () => AgentReport): void {
  socket.on('error', () => {});
  socket.setTimeout(ASKER_TIMEOUT_MS, () => socket.destroy());
  socket.unref();
  socket.end(JSON.stringify(report()));
  // Input is not read, however much it is.
  socket.destroySoon();
}
