/** The ways in which Node resumes a program: each calls `back` later, in the async context of its caller. */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { lookup } from 'node:dns';
import { EventEmitter, EventEmitterAsyncResource, on, once } from 'node:events';
import { createReadStream, readFile } from 'node:fs';
import { readFile as readFilePromise } from 'node:fs/promises';
import { createServer, get } from 'node:http';
import { connect } from 'node:net';
import { finished, PassThrough, Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { runInNewContext } from 'node:vm';
import { MessageChannel } from 'node:worker_threads';
import { gzip } from 'node:zlib';

type Continuation = (back: () => void) => unknown;

const FILE = import.meta.filename;

/** Continuations that need nothing but the event loop. */
export const CONTINUATIONS: Record<string, Continuation> = {
  'at once': (back) => back(),
  'await of a value': async (back) => {
    await null;
    back();
  },
  'await of a promise': async (back) => {
    await sleep(1);
    back();
  },
  'await of an async function': async (back) => {
    await (async () => {
      await null;
      await sleep(0);
    })();
    back();
  },
  'await of a thenable': async (back) => {
    // biome-ignore lint/suspicious/noThenProperty: it is what is looked at here
    await { then: (resolve: () => void) => setImmediate(resolve) };
    back();
  },
  'then of a thenable': async (back) => {
    // biome-ignore lint/suspicious/noThenProperty: it is what is looked at here
    await { then: (resolve: (given: unknown) => void) => resolve(back()) };
  },
  'await of a foreign promise': async (back) => {
    await runInNewContext('(async () => { await null; })()');
    back();
  },
  'microtask of another vm context': (back) =>
    runInNewContext('Promise.resolve().then(() => back())', { back }, { microtaskMode: 'afterEvaluate' }),
  'Promise.then': (back) => Promise.resolve().then(back),
  'Promise.catch': (back) => Promise.reject(new Error('expected')).catch(back),
  'Promise.finally': (back) => sleep(0).finally(back),
  'Promise.all': (back) => Promise.all([sleep(1), null, sleep(0)]).then(back),
  'Promise.race': (back) => Promise.race([sleep(2), sleep(0)]).then(back),
  'for await': async (back) => {
    async function* numbers() {
      yield 1;
      await null;
      yield 2;
    }
    for await (const number of numbers()) if (number === 2) back();
  },
  'inside an async generator': async (back) => {
    async function* generator() {
      await sleep(0);
      back();
      yield 1;
    }
    await generator().next();
  },
  queueMicrotask: (back) => queueMicrotask(back),
  nextTick: (back) => process.nextTick(back),
  setImmediate: (back) => setImmediate(back),
  setTimeout: (back) => setTimeout(back, 1),
  setInterval: (back) => {
    const timer = setInterval(() => {
      clearInterval(timer);
      back();
    }, 1);
  },
  'fs callback': (back) => readFile(FILE, back),
  'fs promise': (back) => readFilePromise(FILE).then(back),
  'file stream': (back) => createReadStream(FILE).resume().once('end', back),
  'crypto callback': (back) => randomBytes(16, back),
  'zlib callback': (back) => gzip('text', back),
  'dns callback': (back) => lookup('127.0.0.1', back),
  emitter: (back) => {
    const emitter = new EventEmitter();
    emitter.once('event', back);
    setImmediate(() => emitter.emit('event'));
  },
  'emitter of an async resource': (back) => {
    const emitter = new EventEmitterAsyncResource({ name: 'test' });
    emitter.once('event', back);
    setImmediate(() => emitter.emit('event'));
  },
  'events.once': async (back) => {
    const emitter = new EventEmitter();
    setTimeout(() => emitter.emit('event'), 1);
    await once(emitter, 'event');
    back();
  },
  'events.on': async (back) => {
    const emitter = new EventEmitter();
    setTimeout(() => emitter.emit('event'), 1);
    for await (const _ of on(emitter, 'event')) break;
    back();
  },
  'stream.finished': (back) => {
    const stream = new PassThrough();
    finished(stream.resume(), back);
    stream.end('text');
  },
  'stream pipeline': (back) => pipeline(Readable.from(['a', 'b']), new PassThrough().resume()).then(back),
  'message port': (back) => {
    const { port1, port2 } = new MessageChannel();
    port1.once('message', () => {
      port1.close();
      back();
    });
    port2.postMessage(null);
  },
};

/** Continuations that need sockets and processes. */
export const SLOW_CONTINUATIONS: Record<string, Continuation> = {
  'http request': (back) => {
    const server = createServer((_, response) => response.end('text')).listen(0, '127.0.0.1', () => {
      get({ port: portOf(server), host: '127.0.0.1', agent: false }, (response) => {
        response.resume().once('end', () => {
          server.close();
          back();
        });
      });
    });
  },
  socket: (back) => {
    const server = createServer((_, response) => response.end('text')).listen(0, '127.0.0.1', () => {
      const socket = connect(portOf(server), '127.0.0.1', () => {
        socket.once('data', () => {
          socket.destroy();
          server.closeAllConnections();
          server.close();
          back();
        });
        socket.write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
      });
    });
  },
  'end of a process': (back) => spawn('true').once('close', back),
};

function portOf(server: ReturnType<typeof createServer>): number {
  return (server.address() as { port: number }).port;
}
