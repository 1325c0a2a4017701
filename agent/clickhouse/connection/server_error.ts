/** An error in the exchange with a server: its code, how a sender reacts to it, and a sentence for an operator. */
import { UserError } from '../../process/errors.ts';

/**
 * How a sender reacts to an error. `wait`: the server did not execute the statement now, but may later. `blocked`: the
 * statement succeeds only after an operator has changed something. `repeat`: it is unknown whether the statement was
 * executed, so it is sent again.
 */
export type Meaning = 'wait' | 'blocked' | 'repeat';

/** Codes for errors that have no ClickHouse code. */
export const OWN_CODES = [
  'unreachable',
  'cut',
  'timeout',
  'refused',
  'malformed',
  'too_large',
  'claimed',
  'moved',
  'behind',
] as const;

/** The code of an error. A number is a ClickHouse code. */
export type ServerErrorCode = number | (typeof OWN_CODES)[number];

export class ServerError extends UserError {
  override readonly name = 'ServerError';
  readonly code: ServerErrorCode;
  readonly meaning: Meaning;

  constructor(code: ServerErrorCode, meaning: Meaning, message: string) {
    super(message);
    this.code = code;
    this.meaning = meaning;
  }
}

const SCHEMA =
  'the tables do not fit this kreplay: run `kreplay fleet upgrade`, or `kreplay fleet init` if there are none';
const ACCOUNT = 'the server refuses the account: check user, password and rights';

/**
 * Known error codes from ClickHouse's src/Common/ErrorCodes.cpp, with advice for operators. All other codes mean
 * `wait`, with the server's message.
 */
const KNOWN: ReadonlyMap<number, readonly [Meaning, string]> = new Map([
  [159, ['wait', 'the server took too long for it']],
  [202, ['wait', 'the server runs too many queries at once']],
  [203, ['wait', 'the server has no free connection to its shards']],
  [209, ['wait', 'the server lost a connection to its shards by time']],
  [210, ['wait', 'the server has an error on its network']],
  [241, ['wait', 'the server has no memory for it: give its profile more max_memory_usage']],
  [242, ['wait', 'the table is read-only: the server has no session with its keeper']],
  [243, ['wait', 'the server has no space left on its disk: free some']],
  [252, ['wait', 'the table has too many parts: merges do not keep up']],
  [279, ['wait', 'no replica of a shard answers']],
  [285, ['wait', 'too few replicas are there for the quorum']],
  [319, ['repeat', 'the server does not know whether the quorum has it']],
  [10, ['blocked', SCHEMA]],
  [16, ['blocked', SCHEMA]],
  [20, ['blocked', SCHEMA]],
  [
    36,
    ['blocked', 'the server refuses a value of the statement or of its settings: check what is set, or this is a bug'],
  ],
  [47, ['blocked', SCHEMA]],
  [53, ['blocked', SCHEMA]],
  [60, ['blocked', SCHEMA]],
  [62, ['blocked', 'the server does not understand the statement: it is older than 18.16, or this is a bug']],
  [81, ['blocked', 'there is no such database: run `kreplay fleet init`, or set another one']],
  [115, ['blocked', 'the server does not know a setting: it is older than this kreplay supports']],
  [117, ['blocked', SCHEMA]],
  [291, ['blocked', 'the account may not use this database: check which ones it is let into']],
  [
    359,
    [
      'blocked',
      'the server drops no partition as large as this: set max_partition_size_to_drop to 0 in its configuration, and run the command again',
    ],
  ],
  [368, ['blocked', SCHEMA]],
  [164, ['blocked', 'the account may only read: use one that may write']],
  [192, ['blocked', ACCOUNT]],
  [193, ['blocked', ACCOUNT]],
  [194, ['blocked', ACCOUNT]],
  [195, ['blocked', 'the server does not let this host use the account: check the networks of the account']],
  [497, ['blocked', 'the account lacks a right: `kreplay fleet init` grants what is needed']],
  [516, ['blocked', ACCOUNT]],
]);

/**
 * Codes of errors that concern only one server: it is overloaded or shutting down, or has no keeper, peer, network or
 * disk.
 */
const OF_ONE_REPLICA: ReadonlySet<ServerErrorCode> = new Set([
  ...(['unreachable', 'cut', 'timeout', 'malformed', 'too_large'] as const),
  ...[202, 203, 209, 210, 225, 236, 242, 243, 279, 999],
]);

/** Returns whether another replica is likely to execute the statement. */
export function isOfOneReplica(error: unknown): error is ServerError {
  if (!(error instanceof ServerError)) return false;
  return OF_ONE_REPLICA.has(error.code) || (error.code === 'refused' && error.meaning === 'wait');
}

const WORDS_MAX = 300;

/**
 * Message of an error that an operator must resolve. Its code 252 usually means too many parts, which merges reduce by
 * themselves. ClickHouse 18.16 does not have this error.
 */
const TOO_MANY_PARTITIONS = /Too many partitions for single INSERT/i;

/**
 * Creates the error for a server's message, such as `Code: 60, e.displayText() = DB::Exception: ...` or its newer form.
 */
export function createServerError(place: string, code: number, text: string): ServerError {
  const words = parseMessageWords(text);
  const [meaning, advice] = KNOWN.get(code) ?? (['wait', undefined] as const);
  const isNever = code === 252 && TOO_MANY_PARTITIONS.test(words);
  const sentence = isNever ? 'one insert has rows of too many hours' : advice;
  return new ServerError(
    code,
    isNever ? 'blocked' : meaning,
    `${place}: ${sentence === undefined ? words : `${sentence} (${words})`} [code ${code}]`,
  );
}

function parseMessageWords(text: string): string {
  const [, words = text] = /DB::Exception: (.*?)(?:, e\.what\(\)|\(version |$)/s.exec(text) ?? [];
  return words.trim().slice(0, WORDS_MAX);
}

/**
 * Finds a server's error message at the end of an answer. The server appends the message if the statement fails after
 * its first rows.
 */
export function findServerMessage(tail: Buffer): { code: number; text: string } | undefined {
  const text = tail.toString('latin1');
  const at = text.search(/Code: \d+[.,] (?:e\.displayText\(\) = )?DB::\w*Exception/);
  if (at < 0) return undefined;
  return { code: Number(/\d+/.exec(text.slice(at))![0]), text: tail.subarray(at).toString() };
}
