/** The period that a recording covers, and whether more events are to come. */

export interface WrittenSpan {
  fromNs: bigint;
  toNs: bigint;
  /**
   * `open`: an agent holds the lock. `killed`: the agent did not end properly, and the lock is free. `unsaid`: the file
   * is a copy that was made while an agent was running. `damaged`: the agent could not continue, and has set the file
   * aside.
   */
  end: 'closed' | 'open' | 'killed' | 'unsaid' | 'damaged';
  /** Whether the file is a copy, a bundle or another named file: no events are expected after its end. */
  isWholeFile: boolean;
  /**
   * Time since an open recording was last written, by the monotonic clock; undefined if only the wall clock is
   * comparable.
   */
  unwrittenNs?: bigint;
}

/** An agent commits every second, even if nothing happens, but a busy machine may delay the commit. */
export const SILENT_AFTER_NS = 5_000_000_000n;

/** Whether the time since the recording was last written is longer than a running agent would allow. */
export function isSilent({ toNs, unwrittenNs }: Pick<WrittenSpan, 'toNs' | 'unwrittenNs'>, nowNs: bigint): boolean {
  return (unwrittenNs ?? nowNs - toNs) > SILENT_AFTER_NS;
}
