/** Responses with server-sent events: sets their headers, and writes their frames to the socket. */
import type { Socket } from 'node:net';
import type { Response } from 'express';
import type { Sink } from '../base/sse.ts';
import { addDirectBytes, findPlainDescriptor } from './socket_progress.ts';

/** Sends the headers and returns the sink for frames. */
export function openEventStream(res: Response): Sink {
  res.status(200).set({
    'Cache-Control': 'no-store',
    // Without this header, nginx would buffer frames.
    'X-Accel-Buffering': 'no',
  });
  // Express's `set` would add a charset parameter, which this media type does not have.
  res.setHeader('Content-Type', 'text/event-stream');
  res.flushHeaders();
  // A pipelined response that waits for an earlier one has no socket yet.
  return res.socket ? createSocketSink(res, res.socket) : createResponseSink(res);
}

function createResponseSink(res: Response): Sink {
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

/** Layout of a chunk in HTTP/1.1: its size and its end (RFC 9112, section 7.1). */
const CHUNK_SIZE_DIGITS = 8;
const HEX_DIGITS = Buffer.from('0123456789abcdef');
const LINE_END = Buffer.from('\r\n');
const CHUNK_HEAD_BYTES = CHUNK_SIZE_DIGITS + LINE_END.length;
/** Maximum size of a write that uses the shared buffer. */
const OUTGOING_BYTES_MAX = 64 * 1024;
/** Spare bytes of a new shared buffer, so that a slightly longer write can use the buffer as well. */
const OUTGOING_BYTES_MORE = 1024;

/**
 * Writes to the socket directly. `res.write` would delay each write until all sessions that are due in this event-loop
 * pass have run. Its lists of delayed writes would cause a third of the garbage collector's work.
 */
function createSocketSink(res: Response, socket: Socket): Sink {
  // HTTP/1.0 has no chunks: its answers extend to the end of the connection.
  const [headBytes, endBytes] = res.chunkedEncoding ? [CHUNK_HEAD_BYTES, LINE_END.length] : [0, 0];
  let outgoing = Buffer.alloc(0);

  /** Reuses one buffer, because a new buffer for each write would cause most of the garbage collector's work. */
  function reserveBuffer(bytes: number): Buffer {
    // The shared buffer may still contain unsent bytes.
    if (socket.writableLength > 0 || bytes > OUTGOING_BYTES_MAX) return Buffer.allocUnsafeSlow(bytes);
    if (bytes > outgoing.length) outgoing = Buffer.allocUnsafeSlow(bytes + OUTGOING_BYTES_MORE);
    return outgoing.subarray(0, bytes);
  }

  function writeBytes(bytes: number, fill: (to: Buffer, at: number) => void): boolean {
    // After the end of this answer, the connection may already carry the next answer.
    if (res.writableEnded) return false;
    const chunk = reserveBuffer(headBytes + bytes + endBytes);
    if (res.chunkedEncoding) {
      writeChunkHead(chunk, bytes);
      chunk.set(LINE_END, headBytes + bytes);
    }
    fill(chunk, headBytes);
    return socket.write(chunk);
  }

  return {
    ...createResponseSink(res),
    write: (frames) => writeBytes(Buffer.byteLength(frames), (to, at) => to.write(frames, at)),
    writeBytes,
    findDirectSocket() {
      const fd =
        socket.destroyed || res.writableEnded || socket.writableLength > 0 ? undefined : findPlainDescriptor(socket);
      return fd === undefined ? undefined : { fd, isChunked: res.chunkedEncoding };
    },
    reportDirectWrite: (bytes) => addDirectBytes(socket, bytes),
    writeRest: (bytes) => (res.writableEnded ? false : socket.write(bytes)),
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
