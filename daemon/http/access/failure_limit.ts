/**
 * Limits wrong tokens per client: a few at once, then one at a time. This keeps the log short; it does not protect the
 * secret, which cannot be guessed. So a right token always works, and no client can lock out others at the same
 * address.
 */
const BURST = 10;
const REFILL_MS = 6_000;
/** At most this many clients are remembered; the one that failed longest ago is forgotten first. */
const CLIENTS_MAX = 4096;

export interface FailureLimit {
  /** Records a failure and returns how many seconds the client should wait, 0 while more failures are allowed. */
  note(client: string): number;
  readonly size: number;
}

export function createFailureLimit(nowMs: () => number): FailureLimit {
  const failures = new Map<string, { left: number; atMs: number }>();
  return {
    note(client) {
      const atMs = nowMs();
      const before = failures.get(client);
      const left = before ? Math.min(BURST, before.left + (atMs - before.atMs) / REFILL_MS) : BURST;
      const allowed = left >= 1;
      failures.delete(client);
      failures.set(client, { left: allowed ? left - 1 : left, atMs });
      if (failures.size > CLIENTS_MAX) failures.delete(failures.keys().next().value!);
      return allowed ? 0 : Math.ceil(((1 - left) * REFILL_MS) / 1000);
    },
    get size() {
      return failures.size;
    },
  };
}
