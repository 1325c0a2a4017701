/** The time that a recording covers, and whether more is to come. */

export interface WrittenSpan {
  fromNs: bigint;
  toNs: bigint;
  /**
   * `open`: an agent holds the lock. `killed`: the agent did not end properly, and the lock is free. `unsaid`: a copy
   * that was made while an agent was running. `damaged`: the agent could not go on, and has set it aside.
   */
  end: 'closed' | 'open' | 'killed' | 'unsaid' | 'damaged';
  /** Whether it is a copy, a bundle or another named file: no events are expected after its end. */
  isWholeFile: boolean;
  /**
   * Time since an open recording was written, by the monotonic clock; undefined if only the wall clock is comparable.
   */
  unwrittenNs?: bigint;
}

/** An agent commits every second, even when nothing happens, but a busy machine may delay it. */
export const SILENT_AFTER_NS = 5_000_000_000n;

/** Whether the recording has not been written for longer than a running agent would leave it. */
export function isSilent({ toNs, unwrittenNs }: Pick<WrittenSpan, 'toNs' | 'unwrittenNs'>, nowNs: bigint): boolean {
  return (unwrittenNs ?? nowNs - toNs) > SILENT_AFTER_NS;
}
