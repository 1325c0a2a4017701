/** Errors about bytes that are not valid blocks, and about columns that do not form a block. */

/** The message is a clause about the bytes: "it ends within a block". */
export class NativeError extends Error {
  override readonly name = 'NativeError';
  /** The last bytes of the answer: a server that fails in the middle of an answer appends its error message. */
  tail: Buffer = Buffer.alloc(0);
  /** `too_large`: the bytes may be right, but there are too many. */
  readonly kind: 'malformed' | 'too_large';

  constructor(message: string, kind: NativeError['kind'] = 'malformed') {
    super(message);
    this.kind = kind;
  }
}

/** The caller gave columns that do not fit each other; nothing was sent. */
export class EncodeError extends Error {
  override readonly name = 'EncodeError';
}
