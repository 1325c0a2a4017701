/** Runs statements on a ClickHouse server over HTTP: reads blocks as they arrive, and inserts blocks into tables. */
import type { Transform } from 'node:stream';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { constants, createGzip, createZstdCompress } from 'node:zlib';
import { readPassword } from '../../process/secret_file.ts';
import { decodeBlocks, type NativeBlock } from '../native/decode.ts';
import { NativeError } from '../native/errors.ts';
import { identifier, columns as namesOf, type Sql, sql } from '../statements/sql.ts';
import {
  ANSWER_START_BYTES,
  type Call,
  createBrokenAnswerError,
  createExchange,
  readAnswerStart,
  readChunks,
  type ServerAnswer,
} from './exchange.ts';
import { isOfOneReplica, ServerError } from './server_error.ts';
import { type ConnectionSettings, parseReplicaUrl, type Replica } from './settings.ts';

/** Compression of an insert's body. ClickHouse 18.16 supports only gzip. */
export type Compression = 'none' | 'gzip' | 'zstd';

export interface CallOptions {
  signal?: AbortSignal | undefined;
  /** Maximum time without useful data from the server; default 60 s. */
  timeoutMs?: number | undefined;
  /** ClickHouse settings for the statement. A read-only account must not send any. */
  settings?: Readonly<Record<string, string | number>> | undefined;
}

export interface SelectOptions extends CallOptions {
  /**
   * Makes the server complete the answer in memory before it sends the first byte, so that no error can follow the
   * first rows. The whole answer must arrive within `timeoutMs`.
   */
  whole?: boolean | undefined;
  /** Maximum size of the answer, in bytes; default 16 MiB if `whole` is set. */
  bytesMax?: number | undefined;
  /** Checks each block. If it throws a NativeError, the answer counts as malformed. */
  check?: ((block: NativeBlock) => void) | undefined;
}

export interface InsertOptions extends CallOptions {
  /** Id of the insert in the server's list of running queries, where ids must be unique. */
  id?: string | undefined;
  compression?: Compression | undefined;
  /**
   * Called with the compressed size of each chunk of the body that is sent. A chunk that is sent again counts again.
   */
  onSent?: ((bytes: number) => void) | undefined;
}

export type EncodedBlocks = Iterable<Uint8Array> | AsyncIterable<Uint8Array>;

export interface Target {
  table: string;
  /** The names of all columns of the blocks. ClickHouse 18.16 silently drops an unnamed column that the table lacks. */
  columns: readonly string[];
}

/**
 * A connection to the replicas of a shard. All methods throw a ServerError, or the signal's reason if it is aborted. If
 * a failure concerns only one replica, the next statements go to another replica.
 */
export interface Connection {
  readonly database: string;
  /** Runs a statement whose answer is empty. */
  run(statement: Sql, options?: CallOptions): Promise<void>;
  /**
   * Runs a SELECT statement, which must not have a FORMAT clause. If a replica fails before its first block, the
   * statement runs on the next replica.
   */
  select(statement: Sql, options?: SelectOptions): AsyncGenerator<NativeBlock>;
  /**
   * Inserts blocks in FORMAT Native with these columns; resolves when the server has stored all of them. A block may
   * reuse the memory of the previous block. `blocks` is called again if nothing was sent, and must return the same
   * blocks. The sequence must be finite, because a server reports an error only after it has read all blocks.
   */
  insert(into: Target, blocks: () => EncodedBlocks, options?: InsertOptions): Promise<void>;
  close(): void;
}

const TIMEOUT_MS = 60_000;
/** Default size limit of a whole answer. As objects, its rows take several times as much memory. */
const WHOLE_BYTES_MAX = 16 * 1024 * 1024;
/** Maximum time for reading blocks that have arrived. Other work of the event loop runs after that. */
const TURN_MS = 10;
/**
 * Size of the server's buffer for a whole answer. With its default of 1 MiB, a server writes even small answers to a
 * file.
 */
const WHOLE_MEMORY_BYTES = 2 * 1024 * 1024;

/**
 * Time-out for answers that do not depend on event tables. It is short, so that a server that hangs is noticed soon.
 */
export const QUESTION_MS = 10_000;

/** Connects to the servers. Reads the password and the certificates once; throws a ConfigError if they are unusable. */
export function connect(settings: ConnectionSettings): Connection {
  const { database, user, passwordFile } = settings;
  // The account is sent in headers, because servers and proxies log query strings.
  const account = {
    ...(user !== undefined && { 'x-clickhouse-user': encodeHeaderText(user) }),
    ...(passwordFile !== undefined && { 'x-clickhouse-key': encodeHeaderText(readPassword(passwordFile)) }),
  };
  const replicas = createReplicas(settings.urls);
  const exchange = createExchange(settings);

  /**
   * Runs a statement. Tries the next replica only if the previous one was not reached; otherwise, the statement may
   * have been executed.
   */
  async function execute(call: Call): Promise<void> {
    let first: unknown;
    for (const replica of replicas.listByPreference()) {
      try {
        return await readNothing(await exchange.send(replica, call), call);
      } catch (error) {
        call.signal?.throwIfAborted();
        if (!replicas.passOver(replica, error) || error.code !== 'unreachable') throw error;
        first ??= error;
      }
    }
    throw first;
  }

  async function* read(call: Call, limits: AnswerLimits): AsyncGenerator<NativeBlock> {
    let first: unknown;
    for (const replica of replicas.listByPreference()) {
      let isBegun = false;
      try {
        for await (const block of readAnswerBlocks(await exchange.send(replica, call), limits)) {
          isBegun = true;
          yield block;
        }
        return;
      } catch (error) {
        call.signal?.throwIfAborted();
        if (!replicas.passOver(replica, error) || isBegun) throw error;
        first ??= error;
      }
    }
    throw first;
  }

  function buildCall(
    more: Record<string, string>,
    { body, isRead = false, isWhole, isInsert }: Pick<Call, 'body' | 'isWhole' | 'isInsert'> & { isRead?: boolean },
    options: InsertOptions,
    headers = {},
  ): Call {
    const given = Object.entries(options.settings ?? {}).map(([name, value]) => [name, String(value)] as const);
    return {
      query: new URLSearchParams({ database, ...more, ...Object.fromEntries(given) }).toString(),
      headers: { ...account, ...headers },
      body,
      isRead,
      isWhole,
      isInsert,
      timeoutMs: options.timeoutMs ?? TIMEOUT_MS,
      signal: options.signal,
      onSent: options.onSent,
    };
  }

  return {
    database,
    async run({ text }, options = {}) {
      await execute(buildCall({ wait_end_of_query: '1' }, { body: () => text }, options));
    },
    select({ text }, options = {}) {
      const { whole: isWhole = false, bytesMax = isWhole ? WHOLE_BYTES_MAX : undefined } = options;
      const whole: Record<string, string> = isWhole
        ? { wait_end_of_query: '1', buffer_size: String(WHOLE_MEMORY_BYTES) }
        : {};
      const asked = { body: () => `${text}\nFORMAT Native`, isRead: true, isWhole };
      return read(buildCall(whole, asked, options), { bytesMax, check: options.check });
    },
    async insert({ table, columns }, blocks, options = {}) {
      const { compression = 'none' } = options;
      let own: { error: unknown } | undefined;
      const watchBlocks = () =>
        readWith(blocks(), (error) => {
          own = { error };
        });
      const encoding = compression === 'none' ? {} : { 'content-encoding': compression };
      const { text } = sql`INSERT INTO ${identifier(table)} (${namesOf(columns)}) FORMAT Native`;
      const id: Record<string, string> = options.id === undefined ? {} : { query_id: options.id };
      const query = { query: text, wait_end_of_query: '1', ...id };
      try {
        await execute(
          buildCall(
            query,
            { body: () => ({ blocks: watchBlocks(), packer: createPacker(compression) }), isInsert: true },
            options,
            encoding,
          ),
        );
      } catch (error) {
        // An error thrown by the caller's blocks is rethrown unchanged.
        throw own ? own.error : error;
      }
    },
    close: () => exchange.close(),
  };
}

/** Converts a text so that Node, which sends headers as latin1, sends the UTF-8 bytes of the text. */
function encodeHeaderText(text: string): string {
  return Buffer.from(text).toString('latin1');
}

const CHUNK_BYTES = 64 * 1024;

function createPacker(compression: Compression): Transform | undefined {
  if (compression === 'none') return undefined;
  if (compression === 'gzip') return createGzip({ level: 1, chunkSize: CHUNK_BYTES });
  return createZstdCompress({ params: { [constants.ZSTD_c_compressionLevel]: 1 }, chunkSize: CHUNK_BYTES });
}

/** Passes errors of the blocks to `note`. Errors of the stream that receives the blocks are not passed to `note`. */
async function* readWith(blocks: EncodedBlocks, note: (error: unknown) => void): AsyncGenerator<Uint8Array> {
  const source = Symbol.asyncIterator in blocks ? blocks[Symbol.asyncIterator]() : blocks[Symbol.iterator]();
  try {
    for (;;) {
      let next: IteratorResult<Uint8Array>;
      try {
        next = await source.next();
      } catch (error) {
        note(error);
        throw error;
      }
      if (next.done) return;
      yield next.value;
    }
  } finally {
    await source.return?.();
  }
}

async function readNothing(answer: ServerAnswer, { isInsert }: Call): Promise<void> {
  const { response, replica } = answer;
  const start = await readAnswerStart(answer);
  // A server that has already sent status 200 can report an error only in the body.
  if (start.includes('DB::')) throw createBrokenAnswerError(replica, start, 'it reports something');
  if (!response.complete && start.length < ANSWER_START_BYTES) throw createCutError(replica);
  // A ClickHouse server answers an insert with an empty body. A text may come from a proxy, so the rows may not be
  // stored.
  if (isInsert && start.length > 0)
    throw createBrokenAnswerError(replica, start, 'no ClickHouse answers an insert with a text');
  if (!response.complete) throw createBrokenAnswerError(replica, start, 'it is long');
}

type AnswerLimits = Pick<SelectOptions, 'bytesMax' | 'check'>;

async function* readAnswerBlocks(answer: ServerAnswer, { bytesMax, check }: AnswerLimits): AsyncGenerator<NativeBlock> {
  const { response, replica, patience } = answer;
  let turnMs = performance.now();
  try {
    for await (const block of decodeBlocks(readChunks(answer), { answerBytesMax: bytesMax })) {
      check?.(block);
      if (block.rowCount > 0) patience.renew();
      yield block;
      if (performance.now() - turnMs < TURN_MS) continue;
      await nextTurn();
      turnMs = performance.now();
    }
    if (!response.complete) throw createCutError(replica);
  } catch (error) {
    if (error instanceof NativeError) throw createBrokenAnswerError(replica, error.tail, error.message, error.kind);
    throw error;
  }
}

function createCutError({ origin }: ServerAnswer['replica']): ServerError {
  return new ServerError('cut', 'repeat', `${origin} closed the connection within its answer`);
}

/* Chooses the replica for the next statement. */

interface Replicas {
  /** Returns all replicas, the preferred one first. */
  listByPreference(): Replica[];
  /** Prefers the next replica if the error concerns only `replica`. Returns whether that is the case. */
  passOver(replica: Replica, error: unknown): error is ServerError;
}

/** Parses the replicas' URLs. Throws a ConfigError for a URL that is invalid or not allowed. */
function createReplicas(urls: readonly string[]): Replicas {
  const replicas = urls.map(parseReplicaUrl);
  if (replicas.length === 0) throw new Error('there is no URL');
  let preferred = 0;
  return {
    listByPreference: () => [...replicas.slice(preferred), ...replicas.slice(0, preferred)],
    passOver(replica, error): error is ServerError {
      if (!isOfOneReplica(error)) return false;
      // Concurrent statements fail together on one replica, and must switch to the next replica only once.
      if (replica === replicas[preferred]) preferred = (preferred + 1) % replicas.length;
      return true;
    },
  };
}
