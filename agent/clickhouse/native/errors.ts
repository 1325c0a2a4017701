/** Errors about bytes that are not valid blocks, and about columns that do not form a block. */

/** An error about received bytes. The message is a clause about the bytes, such as "it ends within a block". */
export class NativeError extends Error {
  override readonly name = 'NativeError';
  /** The last bytes of the answer. A server that fails after its first rows appends its error message there. */
  tail: Buffer = Buffer.alloc(0);
  /** `too_large`: the bytes may be valid, but exceed a limit. */
  readonly kind: 'malformed' | 'too_large';

  constructor(message: string, kind: NativeError['kind'] = 'malformed') {
    super(message);
    this.kind = kind;
  }
}

/** An error about columns that do not fit together. Nothing was sent. */
export class EncodeError extends Error {
  override readonly name = 'EncodeError';
}
