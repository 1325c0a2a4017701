/**
 * The socket at which the agent changes pins for other processes. Root, the agent's own user and the users that the
 * administrator names may change pins. The agent refuses all other users that connect.
 */
import { once } from 'node:events';
import { chmodSync, lstatSync, rmSync, statSync } from 'node:fs';
import { createRequire } from 'node:module';
import { createServer, type Socket } from 'node:net';
import { dirname, extname, join } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { PinWorkerData } from './pin_worker.ts';
import { PIN_REQUEST_BYTES_MAX, type PinAnswer, type PinMessage, pinMessage } from './protocol.ts';

/** The part of the addon native/system that this file uses. */
interface NativeSystem {
  peerUser(fd: number): number;
}

const CONNECTIONS_MAX = 16;
/**
 * Time limit for a client to send its request. The same limit applies again to reading the answer and closing. A slower
 * client is disconnected.
 */
const CLIENT_MS_MAX = 5000;
/** The read permissions in a file's mode. */
const READ_BITS = 0o444;

export interface PinSocket {
  /** Accepts no further requests; resolves once no change of a pin is under way. */
  close(): Promise<void>;
}

export interface PinSocketOptions {
  /** Path of the recording. Users that may read it may connect. Requests name a file in its folder. */
  recording: string;
  /** Ids of users that may change pins, in addition to root and this process's user. */
  users: readonly number[];
  /** Called if the socket is not available, or if a request fails. The agent continues. */
  onProblem: (message: string) => void;
}

/**
 * Opens the socket. No other agent may use this path: an existing socket there is treated as left by a killed agent,
 * and is removed.
 */
export function openPinSocket(path: string, { recording, users, onProblem }: PinSocketOptions): PinSocket {
  const native: NativeSystem = createRequire(import.meta.url)('#system');
  const allowed = new Set([0, process.getuid!(), ...users]);
  /** The change under way. Changes run one after another. */
  let last: Promise<unknown> = Promise.resolve();
  let open = true;

  async function handle(socket: Socket): Promise<PinAnswer> {
    const user = native.peerUser((socket as Socket & { _handle: { fd: number } })._handle.fd);
    if (!allowed.has(user)) return createRefusal(user);
    const timer = setTimeout(() => socket.destroy(), CLIENT_MS_MAX);
    const message = parseMessage(await readLine(socket));
    clearTimeout(timer);
    // Node notices that the client has closed the connection only while the socket is being read.
    socket.resume();
    if (!message) return { code: 'bad_request', message: 'the agent does not know this request: use the same version' };
    const change = last.then(() => {
      // A client that has disconnected has already reported to its user that nothing was changed.
      if (socket.destroyed || socket.readableEnded || !open)
        return { code: 'recording_busy', message: 'the agent did not get to it in time' };
      return changePin({ path: join(dirname(recording), message.file), message });
    });
    last = change.catch(() => {});
    return await change;
  }

  const server = createServer({ allowHalfOpen: true }, (socket) => {
    socket.on('error', () => socket.destroy());
    socket.unref();
    if (!open) {
      socket.destroy();
      return;
    }
    handle(socket).then(
      (answer) => {
        const timer = setTimeout(() => socket.destroy(), CLIENT_MS_MAX);
        socket.once('close', () => clearTimeout(timer));
        socket.end(`${JSON.stringify(answer)}\n`);
        // Closing a connection with unread input resets it, and the client would lose the answer.
        socket.resume();
      },
      (error: Error) => {
        onProblem(`a request to change a pin failed: ${error.message}`);
        socket.destroy();
      },
    );
  });
  server.maxConnections = CONNECTIONS_MAX;
  server.on('error', (error) => onProblem(`pins cannot be changed through this agent: ${error.message}`));
  server.on('listening', () => {
    // Connecting requires write permission, so each read permission of the recording becomes a write permission.
    chmodSync(path, 0o600 | ((statSync(recording).mode & READ_BITS) >> 1));
  });
  if (lstatSync(path, { throwIfNoEntry: false })?.isSocket()) rmSync(path);
  server.listen(path);
  server.unref();
  return {
    async close() {
      open = false;
      server.close();
      await last;
    },
  };
}

function createRefusal(user: number): PinAnswer {
  return {
    code: 'not_allowed',
    message: `the agent changes no pins for user ${user}: name the user in pins-by, in [agent] of its configuration, and start the agent again`,
  };
}

/**
 * Returns the first line that the client sends; undefined if the client sends too much, ends without a line, or is
 * disconnected.
 */
async function readLine(socket: Socket): Promise<string | undefined> {
  let text = '';
  try {
    for await (const chunk of socket.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
      text += chunk;
      const end = text.indexOf('\n');
      if (end >= 0) return text.slice(0, end);
      if (text.length > PIN_REQUEST_BYTES_MAX) return undefined;
    }
  } catch {
    // The connection broke, or the client's time limit expired.
  }
  return undefined;
}

function parseMessage(line: string | undefined): PinMessage | undefined {
  if (line === undefined) return undefined;
  try {
    return pinMessage.parse(JSON.parse(line));
  } catch {
    return undefined;
  }
}

async function changePin(workerData: PinWorkerData): Promise<PinAnswer> {
  // The compiled file has another extension.
  const worker = new Worker(new URL(`./pin_worker${extname(import.meta.filename)}`, import.meta.url), { workerData });
  const ended = once(worker, 'exit').then(() => {
    throw new Error('the thread that changes pins ended');
  });
  const [answer] = (await Promise.race([once(worker, 'message'), ended])) as [PinAnswer];
  ended.catch(() => {});
  return answer;
}
