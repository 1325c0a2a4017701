/** Answers that are server-sent events: what a response says before the first one, and how frames reach its socket. */
import type { Socket } from 'node:net';
import type { Response } from 'express';
import type { Sink } from '../sse.ts';

/** Answers, and gives where the frames go. */
export function openEventStream(res: Response): Sink {
  res.status(200).set({
    'Cache-Control': 'no-store',
    // nginx would hold frames back.
    'X-Accel-Buffering': 'no',
  });
  // Express would add a charset, which the format does not have.
  res.setHeader('Content-Type', 'text/event-stream');
  res.flushHeaders();
  // Without a socket another answer goes before it on this connection.
  return res.socket ? socketSink(res, res.socket) : responseSink(res);
}

function responseSink(res: Response): Sink {
  return {
    write: (frames) => res.write(frames),
    writeBytes(bytes, fill) {
      const frames = Buffer.allocUnsafe(bytes);
      fill(frames, 0);
      return res.write(frames);
    },
    end: res.end.bind(res),
    destroy: res.destroy.bind(res),
    on: (event, listener) => res.on(event, listener),
  };
}

/** Of a chunk of HTTP/1.1: how long it is, and its end (RFC 9112, section 7.1). */
const CHUNK_SIZE_DIGITS = 8;
const HEX_DIGITS = Buffer.from('0123456789abcdef');
const LINE_END = Buffer.from('\r\n');
const CHUNK_HEAD_BYTES = CHUNK_SIZE_DIGITS + LINE_END.length;
/** Of a write that memory is kept for, and how much more is kept than it needs. */
const OUTGOING_BYTES_MAX = 64 * 1024;
const OUTGOING_BYTES_MORE = 1024;

/**
 * Writes to the socket itself. The response would hold each write back to the end of the turn of the event loop, when all
 * sessions that ring now have had their turn, and keep lists of what it holds back: a third of what the garbage collector
 * had to do.
 */
function socketSink(res: Response, socket: Socket): Sink {
  // HTTP/1.0 has no chunks: its answers go up to the end of the connection.
  const [headBytes, endBytes] = res.chunkedEncoding ? [CHUNK_HEAD_BYTES, LINE_END.length] : [0, 0];
  let outgoing = Buffer.alloc(0);

  /** Memory of its own for each write would be the most of what there is for the garbage collector. */
  function roomFor(bytes: number): Buffer {
    // Some of what it holds is still to be sent.
    if (socket.writableLength > 0 || bytes > OUTGOING_BYTES_MAX) return Buffer.allocUnsafeSlow(bytes);
    if (bytes > outgoing.length) outgoing = Buffer.allocUnsafeSlow(bytes + OUTGOING_BYTES_MORE);
    return outgoing.subarray(0, bytes);
  }

  function writeBytes(bytes: number, fill: (to: Buffer, at: number) => void): boolean {
    // The connection may have another answer now.
    if (res.writableEnded) return false;
    const chunk = roomFor(headBytes + bytes + endBytes);
    if (res.chunkedEncoding) {
      writeChunkHead(chunk, bytes);
      chunk.set(LINE_END, headBytes + bytes);
    }
    fill(chunk, headBytes);
    return socket.write(chunk);
  }

  return {
    ...responseSink(res),
    write: (frames) => writeBytes(Buffer.byteLength(frames), (to, at) => to.write(frames, at)),
    writeBytes,
    on(event, listener) {
      if (event !== 'drain') return res.on(event, listener);
      socket.on('drain', listener);
      return res.on('close', () => socket.off('drain', listener));
    },
  };
}

function writeChunkHead(to: Buffer, bytes: number): void {
  for (let at = CHUNK_SIZE_DIGITS - 1, rest = bytes; at >= 0; at--, rest >>>= 4) to[at] = HEX_DIGITS[rest & 15]!;
  to.set(LINE_END, CHUNK_SIZE_DIGITS);
}
