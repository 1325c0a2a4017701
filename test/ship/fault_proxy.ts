/** A TCP proxy in front of a server: it cuts connections at a byte, loses answers, and is slow. */
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

export type Fault =
  /** Connections end when so many more bytes of requests, or of answers, have passed; the byte after them has not. */
  | { kind: 'cut_request' | 'cut_answer'; bytes: number }
  /** An answer does not come back after so many others, and its connection ends. */
  | { kind: 'lose_answer'; answers: number }
  /** The answer to the next request with this text does not come back, and its connection ends. */
  | { kind: 'lose_answer_to'; request: string };

export interface FaultProxy {
  readonly url: string;
  readonly port: number;
  /** Bytes of requests and of answers so far. */
  readonly passed: { request: number; answer: number };
  /** Arms a fault, and resolves when it has happened. */
  next(fault: Fault): Promise<void>;
  /** From now on each chunk of a request waits so long. */
  slowDown(ms: number): void;
  /** Ends all connections, and each new one at once while it refuses. */
  refuse(isRefusing: boolean): void;
  close(): Promise<void>;
}

function leftOf(fault: Fault): number {
  if (fault.kind === 'lose_answer_to') return 0;
  return fault.kind === 'lose_answer' ? fault.answers : fault.bytes;
}

interface Armed {
  fault: Fault;
  left: number;
  happened: () => void;
}

/** `port` is asked at each connection: a server may be back at another one. */
export async function startFaultProxy(port: () => number): Promise<FaultProxy> {
  const passed = { request: 0, answer: 0 };
  const sockets = new Set<Socket>();
  let armed: Armed | undefined;
  let delayMs = 0;
  let refuses = false;

  function happen(): void {
    armed?.happened();
    armed = undefined;
  }

  const isAnsweredNever = new WeakSet<Socket>();

  /** Returns how many bytes of a chunk pass; fewer than all of it end its connection. */
  function allowed(direction: 'request' | 'answer', client: Socket, chunk: Buffer): number {
    const { length } = chunk;
    if (!armed) return length;
    if (armed.fault.kind === 'lose_answer_to') {
      if (direction === 'request' && chunk.includes(armed.fault.request)) isAnsweredNever.add(client);
      if (direction === 'request' || !isAnsweredNever.has(client)) return length;
      happen();
      return 0;
    }
    if (armed.fault.kind === 'lose_answer') {
      if (direction === 'request' || armed.left-- > 0) return length;
      happen();
      return 0;
    }
    if (armed.fault.kind !== `cut_${direction}`) return length;
    armed.left -= length;
    if (armed.left >= 0) return length;
    const bytes = armed.left + length;
    happen();
    return bytes;
  }

  async function pass(direction: 'request' | 'answer', from: Socket, to: Socket): Promise<void> {
    try {
      for await (const chunk of from as AsyncIterable<Buffer>) {
        const count = allowed(direction, direction === 'request' ? from : to, chunk);
        if (direction === 'request' && delayMs > 0) await sleep(delayMs);
        passed[direction] += count;
        if (!to.write(chunk.subarray(0, count))) await once(to, 'drain');
        if (count < chunk.length) break;
      }
    } catch {
      // One side has ended, and so does the other.
    }
    // What was let through still arrives.
    to.destroySoon();
    from.destroy();
  }

  const listening = createServer((client) => {
    client.on('error', () => {});
    if (refuses) return void client.destroy();
    const server = connect(port(), '127.0.0.1');
    for (const socket of [client, server]) {
      sockets.add(socket);
      socket.setNoDelay(true);
      socket.on('error', () => {});
      socket.once('close', () => sockets.delete(socket));
    }
    void pass('request', client, server);
    void pass('answer', server, client);
  }).listen(0, '127.0.0.1');
  await once(listening, 'listening');
  const { port: own } = listening.address() as { port: number };

  return {
    url: `http://127.0.0.1:${own}`,
    port: own,
    passed,
    next(fault) {
      const { promise, resolve } = Promise.withResolvers<void>();
      armed = { fault, left: leftOf(fault), happened: resolve };
      return promise;
    },
    slowDown(ms) {
      delayMs = ms;
    },
    refuse(isRefusing) {
      refuses = isRefusing;
      if (refuses) for (const socket of sockets) socket.destroy();
    },
    async close() {
      const closed = once(listening, 'close');
      listening.close();
      for (const socket of sockets) socket.destroy();
      await closed;
    },
  };
}
