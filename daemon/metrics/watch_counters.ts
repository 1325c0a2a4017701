/** Counters of a watcher's work since its start, for the watcher's metrics. */

export const DROP_REASONS = {
  rate: "beyond a rule's at-most",
  minute: 'beyond --matches-per-minute',
} as const;

export type DropReason = keyof typeof DROP_REASONS;

export const FAILED_STEPS = {
  follow: 'reading the recording, or keeping the position',
  pin: 'pinning a transaction',
  bundle: 'writing a bundle',
  webhook: 'calling the webhook',
} as const;

export type FailedStep = keyof typeof FAILED_STEPS;

export const MISS_REASONS = {
  retention: 'retention removed them first',
  set_aside: 'their recording was damaged and set aside, or is gone',
} as const;

export type MissReason = keyof typeof MISS_REASONS;

export interface WatchCounters {
  /** Number of matches of each rule, by the rule's name; `alert` counts the matches of alerts. */
  matches: Map<string, number>;
  dropped: Record<DropReason, number>;
  failures: Record<FailedStep, number>;
  pinned: number;
  bundlesWritten: number;
  bundlesRemoved: number;
  delivered: number;
  givenUp: number;
  /** Transactions that were gone from the recording before they were pinned. */
  gone: number;
  /** Events that were not examined, and will not be. */
  missedEvents: Record<MissReason, number>;
  /** Number of recorded events that are not examined yet. */
  behindEvents: number;
}

export function createCounters(rules: readonly string[]): WatchCounters {
  return {
    matches: new Map([...rules, 'alert'].map((rule) => [rule, 0])),
    dropped: { rate: 0, minute: 0 },
    failures: { follow: 0, pin: 0, bundle: 0, webhook: 0 },
    pinned: 0,
    bundlesWritten: 0,
    bundlesRemoved: 0,
    delivered: 0,
    givenUp: 0,
    gone: 0,
    missedEvents: { retention: 0, set_aside: 0 },
    behindEvents: 0,
  };
}
