/** Sends one HTTP request to a replica, and reads the answer. */
import { once } from 'node:events';
import type { ClientRequest, IncomingMessage } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import type { Transform, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createPatience, type Patience } from './patience.ts';
import { createServerError, findServerMessage, ServerError } from './server_error.ts';
import { type ConnectionSettings, createTlsContext, type Replica } from './settings.ts';

// A static import would cost 20 ms at each start: it loads all exports of the module, some of which load browser APIs.
const { Agent: HttpAgent, request: httpRequest } = process.getBuiltinModule('node:http');

/** A body of blocks; `packer` compresses it if present. */
export interface Body {
  /** Each block is written before the next one is requested, so the next block may reuse its memory. */
  blocks: AsyncIterable<Uint8Array>;
  packer?: Transform | undefined;
}

export interface Call {
  /** Query string without `?`. */
  query: string;
  headers: Readonly<Record<string, string>>;
  /** Returns the body from its start. Called once per attempt. */
  body: () => string | Body;
  /** Whether the statement only reads. Such a statement is retried even if the server may have run it. */
  isRead: boolean;
  /** Maximum time without useful data from the server. */
  timeoutMs: number;
  /** Whether the whole answer must arrive within `timeoutMs`. */
  isWhole?: boolean | undefined;
  /** Whether the statement is an insert, whose answer is empty. */
  isInsert?: boolean | undefined;
  signal?: AbortSignal | undefined;
  /** Called with the size of each chunk of a streamed body, in bytes. */
  onSent?: ((bytes: number) => void) | undefined;
}

export interface ServerAnswer {
  response: IncomingMessage;
  replica: Replica;
  patience: Patience;
}

export interface Exchange {
  /**
   * Sends a request; returns an answer with status 200 whose body is unread. Throws a ServerError, or the signal's
   * reason.
   */
  send(replica: Replica, call: Call): Promise<ServerAnswer>;
  close(): void;
}

const CONNECT_MS_MAX = 5000;
/** Maximum number of attempts. Each attempt may reuse an idle keep-alive connection that the server has closed. */
const TRIES_MAX = 4;
/** Maximum number of bytes that are read from an error message, or from an answer that should be empty. */
export const ANSWER_START_BYTES = 64 * 1024;
/** Maximum number of interim answers (status 1xx). Regular servers send at most one. */
const INTERIM_ANSWERS_MAX = 10;
/** Interval at which the client checks, while it sends a body, whether an answer has begun. */
const POLL_MS = 1000;

export function createExchange({ tls = {} }: ConnectionSettings): Exchange {
  const secureContext = createTlsContext(tls);
  const secure = new HttpsAgent({ keepAlive: true, ...(secureContext && { secureContext }) });
  const agents = { http: new HttpAgent({ keepAlive: true }), https: secure };

  function openRequest({ host, port, isTls }: Replica, { query, headers, signal }: Call): ClientRequest {
    const options = { host, port, path: `/?${query}`, method: 'POST', headers, ...(signal && { signal }) };
    return isTls ? httpsRequest({ ...options, agent: agents.https }) : httpRequest({ ...options, agent: agents.http });
  }

  async function send(replica: Replica, call: Call): Promise<ServerAnswer> {
    for (let tries = 1; ; tries++) {
      // This check comes first, because a compressed body that is piped into an aborted request would never end.
      call.signal?.throwIfAborted();
      const request = openRequest(replica, call);
      const progress = createProgress();
      const patience = createPatience(call);
      try {
        const response = await awaitAnswer(request, call, progress);
        const answer = { response, replica, patience };
        if (response.statusCode === 200) return answer;
        const refusal = await readRefusal(answer);
        // The server has refused the request, so the rest of the body need not be sent.
        if (!request.writableFinished) request.destroy();
        throw refusal;
      } catch (error) {
        call.signal?.throwIfAborted();
        if (error instanceof ServerError) throw error;
        // The server closes idle keep-alive connections after some seconds, possibly just when one is reused.
        const isClosed = request.reusedSocket && isCut(error) && tries < TRIES_MAX;
        if (!isClosed || !(call.isRead || progress.isUnsent())) throw describeFailure(replica, progress, error);
      }
    }
  }

  return {
    send,
    close() {
      agents.http.destroy();
      agents.https.destroy();
    },
  };
}

interface SendProgress {
  isConnected: boolean;
  isUnsent: () => boolean;
}

const createProgress = (): SendProgress => ({ isConnected: false, isUnsent: () => true });

async function awaitAnswer(request: ClientRequest, call: Call, progress: SendProgress): Promise<IncomingMessage> {
  const slow = setTimeout(() => request.destroy(createTimeoutError('ECONNECTTIMEOUT')), CONNECT_MS_MAX);
  const giveUp = () => void request.destroy(createTimeoutError('ESILENT'));
  request.setTimeout(call.timeoutMs, giveUp);
  const stopWatching = watchHeader(request, call, giveUp);
  request.once('socket', (socket) => {
    const before = socket.bytesWritten;
    progress.isUnsent = () => socket.bytesWritten === before;
    function markConnected(): void {
      clearTimeout(slow);
      progress.isConnected = true;
    }
    if (request.reusedSocket) markConnected();
    else socket.once('encrypted' in socket ? 'secureConnect' : 'connect', markConnected);
  });
  // This listener keeps later errors from crashing the process. The reader of the answer reports them.
  request.on('error', () => {});
  const answered = once(request, 'response') as Promise<[IncomingMessage]>;
  /** Waits for the answer if sending was cut off. Only the answer, or the request's own error, has the reason. */
  const deferToAnswer = (error: unknown) => (isCut(error) ? answered : Promise.reject(error));
  try {
    // A server that refuses a request may answer before the whole body is sent.
    const [response] = await Promise.race([answered, sendBody(request, call).then(() => answered, deferToAnswer)]);
    // From here on, the socket may also be idle because the caller reads slowly.
    request.setTimeout(0);
    return response;
  } finally {
    clearTimeout(slow);
    stopWatching();
  }
}

/**
 * Limits the time until an answer's header is complete. The socket's own time-out is not enough: each received byte
 * restarts it.
 */
function watchHeader(request: ClientRequest, { timeoutMs }: Call, giveUp: () => void): () => void {
  let [late, polls]: (NodeJS.Timeout | undefined)[] = [];
  let interim = 0;
  let read = () => 0;
  let before = 0;
  const begin = () => {
    late ??= setTimeout(giveUp, timeoutMs);
  };
  request.once('socket', (socket) => {
    read = () => socket.bytesRead;
    before = read();
    polls = setInterval(() => read() > before && begin(), POLL_MS);
  });
  request.once('finish', begin);
  const noAnswer = Object.assign(new Error('it never answers'), { code: 'HPE_NO_ANSWER' });
  request.on('information', () => {
    before = read();
    if (++interim > INTERIM_ANSWERS_MAX) request.destroy(noAnswer);
  });
  // After an upgrade, the socket no longer belongs to the request.
  request.on('upgrade', (_, socket) => {
    socket.destroy();
    request.emit('error', noAnswer);
  });
  return () => {
    request.off('finish', begin);
    clearInterval(polls);
    clearTimeout(late);
  };
}

async function sendBody(request: ClientRequest, { body: openBody, onSent }: Call): Promise<void> {
  const body = openBody();
  // The text is sent as a Buffer. With a string, Node would encode the headers in the string's encoding, but these
  // headers are latin1.
  if (typeof body === 'string') {
    request.end(Buffer.from(body));
    return;
  }
  const { blocks, packer } = body;
  if (!packer) {
    await writeBlocks(request, blocks, onSent);
    return;
  }
  const sent = pipeline(packer, request);
  // The listener is added after the pipeline, because a listener added earlier would start the flow too soon.
  if (onSent) packer.on('data', (chunk: Buffer) => onSent(chunk.length));
  await Promise.all([writeBlocks(packer, blocks), sent]);
}

/** Writes blocks to a stream. If the blocks fail, destroys the stream; if the stream fails, requests no more blocks. */
async function writeBlocks(to: Writable, blocks: Body['blocks'], onSent?: Call['onSent']): Promise<void> {
  try {
    for await (const block of blocks) {
      await writeBlock(to, block);
      onSent?.(block.length);
      // A destroyed stream ends the attempt. A new attempt may have begun, which reuses the memory of the blocks.
      if (to.destroyed) throw createPrematureCloseError();
    }
  } catch (error) {
    to.destroy(error as Error);
    throw error;
  }
  to.end();
}

/** Writes a block. Also listens for `close`, because a closed stream may never call the callback. */
function writeBlock(to: Writable, block: Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    function end(error?: NodeJS.ErrnoException | null): void {
      to.off('error', end);
      to.off('close', close);
      if (!error) resolve();
      else reject(error.code === 'ERR_STREAM_DESTROYED' ? createPrematureCloseError() : error);
    }
    const close = () => end(createPrematureCloseError());
    to.on('error', end);
    to.on('close', close);
    to.write(block, end);
  });
}

function createPrematureCloseError(): Error {
  return Object.assign(new Error('the stream was closed'), { code: 'ERR_STREAM_PREMATURE_CLOSE' });
}

function createTimeoutError(code: string): Error {
  return Object.assign(new Error('timeout'), { code });
}

function getErrorCode(error: unknown): string {
  return String((error as NodeJS.ErrnoException).code ?? '');
}

function isCut(error: unknown): boolean {
  return ['ECONNRESET', 'EPIPE', 'ERR_STREAM_PREMATURE_CLOSE'].includes(getErrorCode(error));
}

/**
 * Returns the error for a failed request. If no connection was made, the failure may concern only this replica.
 * Otherwise, the statement may have been executed.
 */
function describeFailure({ origin }: Replica, { isConnected }: SendProgress, error: unknown): Error {
  const code = getErrorCode(error);
  const { reason, message } = error as Error & { reason?: string };
  if (code === 'ESILENT') return createSilenceError(origin);
  if (code.startsWith('HPE_'))
    return new ServerError(
      'malformed',
      'repeat',
      `${origin} answers with something else than HTTP (${code}): check host and port, it may be another service`,
    );
  if (isConnected && (isCut(error) || /^E(?!RR_)[A-Z_]+$/.test(code)))
    return new ServerError('cut', 'repeat', `${origin} closed the connection before it answered`);
  if (/^ERR_(SSL|TLS)|CERT|SELF_SIGNED|UNABLE_TO/.test(code))
    return new ServerError(
      'unreachable',
      'wait',
      `${origin} cannot be trusted, or does not trust us: ${reason ?? message}`,
    );
  const why = code === 'ECONNECTTIMEOUT' ? 'no connection in 5 s' : code || message;
  if (isCut(error) || /^E(?!RR_)[A-Z_]+$/.test(code))
    return new ServerError('unreachable', 'wait', `${origin} cannot be reached: ${why}`);
  return error as Error;
}

function createSilenceError(origin: string): ServerError {
  return new ServerError(
    'timeout',
    'repeat',
    `${origin} does not answer: it is overloaded, or something is in between`,
  );
}

/**
 * Yields the chunks of the body as they arrive. If the connection is cut, the body ends without an error, because its
 * last bytes may contain the server's error message. Throws a ServerError if no useful data arrives for too long.
 */
export async function* readChunks({ response, replica, patience }: ServerAnswer): AsyncGenerator<Buffer> {
  const chunks = (response as AsyncIterable<Buffer>)[Symbol.asyncIterator]();
  let timer: NodeJS.Timeout | undefined;
  try {
    for (;;) {
      const sinceMs = performance.now();
      timer = setTimeout(() => response.destroy(createTimeoutError('ESILENT')), patience.leftMs());
      const { done, value } = await chunks.next();
      clearTimeout(timer);
      if (done) return;
      patience.spend(performance.now() - sinceMs, value.length);
      yield value;
    }
  } catch (error) {
    if (getErrorCode(error) === 'ESILENT') throw createSilenceError(replica.origin);
    if (!isCut(error)) throw error;
  } finally {
    clearTimeout(timer);
    await chunks.return?.();
  }
}

/** Reads the error message of an answer whose status is not 200. */
async function readRefusal(answer: ServerAnswer): Promise<ServerError> {
  const { statusCode = 0, headers } = answer.response;
  const { origin } = answer.replica;
  const text = (await readAnswerStart(answer)).toString();
  const code = Number(headers['x-clickhouse-exception-code'] ?? /^Code: (\d+)[.,]/.exec(text)?.[1] ?? Number.NaN);
  if (Number.isInteger(code)) return createServerError(origin, code, text);
  if (statusCode >= 500 || statusCode === 429)
    return new ServerError(
      'refused',
      'wait',
      `${origin} answers with status ${statusCode}: it, or a proxy, is not ready`,
    );
  return new ServerError(
    'refused',
    'blocked',
    `${origin} answers with status ${statusCode}: it may be no ClickHouse server, or a proxy refuses the request`,
  );
}

/** Returns the first bytes of an answer, and ignores the rest. */
export async function readAnswerStart(answer: ServerAnswer): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of readChunks(answer)) {
    chunks.push(chunk);
    length += chunk.length;
    if (length >= ANSWER_START_BYTES) break;
  }
  return Buffer.concat(chunks);
}

/**
 * Returns the error that the server reports at the end of the answer. If there is none, returns an error whose reason
 * is `what`.
 */
export function createBrokenAnswerError(
  { origin }: Replica,
  tail: Buffer,
  what: string,
  code: 'malformed' | 'too_large' = 'malformed',
): ServerError {
  const found = findServerMessage(tail);
  if (found) return createServerError(origin, found.code, found.text);
  return new ServerError(code, 'repeat', `the answer of ${origin} is not what was asked for: ${what}`);
}
