/** The agent's socket: says how the agent is, and takes nothing. Nobody pays for it while nobody asks. */
import { chmodSync, lstatSync, rmSync, statSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { dirname, join } from 'node:path';
import { AGENT_SOCKET, type AgentReport } from '../../bpf/schema/agent_report.ts';

const CONNECTIONS_MAX = 16;
/** An asker that does not read is let go. */
const ASKER_TIMEOUT_MS = 2000;
/** Of a file's mode. */
const READ_BITS = 0o444;

export interface ReportSocket {
  close(): void;
}

/**
 * Whoever may read the recording may ask. `onProblem`: there is no socket; recording needs none. To be called by who
 * holds the recording's lock: a socket that is there is then of an agent that was killed.
 */
export function openReportSocket(
  recording: string,
  report: () => AgentReport,
  onProblem: (message: string) => void,
): ReportSocket {
  const path = join(dirname(recording), AGENT_SOCKET);
  let open = true;
  const server = createServer((socket) => {
    // It may have been accepted just before the close, and the agent has nothing to tell of any more.
    if (open) answer(socket, report);
    else socket.destroy();
  });
  server.maxConnections = CONNECTIONS_MAX;
  server.on('error', (error) => onProblem(`nobody can ask this agent for its numbers: ${error.message}`));
  server.on('listening', () => {
    const { mode } = statSync(recording);
    // To connect takes the right to write.
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
  // What it says is not read, however much it is.
  socket.destroySoon();
}
