/** A way to a daemon that a test breaks, as its restart or a lost network does. */
import { type IncomingMessage, request, type ServerResponse } from 'node:http';
import { close, listen } from '../../daemon/server/server.ts';

export interface BreakingWay {
  url: string;
  /** Where the daemon listens that is asked: its successor may have another. */
  port: number;
  /** After how many bytes of an answer the connection breaks; Infinity for a whole answer. Any question may be asked. */
  bytesOf: (path: string) => number;
  /**
   * How long an answer's connection stays open before it breaks: what a page has not read by then, Chromium throws
   * away.
   */
  beforeBreak: () => Promise<void>;
  /** Paths that were asked. */
  asked: string[];
}

const closers: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const one of closers.splice(0)) await one();
});

/** Closed when the test ends. */
export async function breakingWay(port: number): Promise<BreakingWay> {
  const way: BreakingWay = {
    url: '',
    port,
    bytesOf: () => Number.POSITIVE_INFINITY,
    beforeBreak: async () => {},
    asked: [],
  };
  const onRequest = (asked: IncomingMessage, answer: ServerResponse): void => {
    const path = asked.url!;
    way.asked.push(path);
    let left = way.bytesOf(path);
    if (left === 0) return void asked.socket.destroy();
    const breakAnswer = async () => {
      await way.beforeBreak().catch(() => {});
      asked.socket.destroySoon();
    };
    const host = `127.0.0.1:${way.port}`;
    // Bytes are counted as they are written. The daemon refuses an origin that is not its own.
    const headers = { ...asked.headers, host, 'accept-encoding': 'identity' };
    if (headers.origin !== undefined) headers.origin = `http://${host}`;
    const sent = request(
      { host: '127.0.0.1', port: way.port, path, method: asked.method!, headers, agent: false },
      (got) => {
        answer.writeHead(got.statusCode!, got.headers);
        got.on('data', (bytes: Buffer) => {
          answer.write(bytes.subarray(0, left));
          left -= bytes.length;
          // What was written is to arrive before the end.
          if (left <= 0) setImmediate(breakAnswer);
        });
        got.on('end', () => left > 0 && answer.end());
      },
    );
    sent.on('error', () => asked.socket.destroy());
    answer.on('close', () => sent.destroy());
    asked.pipe(sent);
  };
  const [server, url] = await listen(onRequest, { host: '127.0.0.1', port: 0 });
  way.url = url;
  closers.push(() => close(server));
  return way;
}
