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
   * Time since an open recording was last written, by the monotonic clock; undefined if this clock is not comparable,
   * for example after a reboot.
   */
  unwrittenNs?: bigint;
}

/**
 * Time without a commit after which an agent is silent. An agent commits every second, even without events, but a busy
 * machine may delay commits.
 */
export const SILENT_AFTER_NS = 5_000_000_000n;

/** Whether the recording was last written so long ago that a running agent would have committed since then. */
export function isSilent({ toNs, unwrittenNs }: Pick<WrittenSpan, 'toNs' | 'unwrittenNs'>, nowNs: bigint): boolean {
  return (unwrittenNs ?? nowNs - toNs) > SILENT_AFTER_NS;
}
