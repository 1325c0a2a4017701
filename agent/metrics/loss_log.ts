/** Logs losses with their cause and remedy: at once, and then once a minute for as long as they go on. */
import { LOSS_CAUSES, LOSS_CURES, type LossCause } from '../../bpf/schema/losses.ts';

export const LOSSES_EVERY_MS = 60_000;

export interface LossLog {
  /** Called with the losses of each commit, even if there are none. */
  noteLosses(losses: readonly { cause: LossCause; count: number; transactionId?: string | undefined }[]): void;
  /** Logs the losses that have not been logged yet. */
  close(): void;
}

export function createLossLog(log: { warn(fields: object, text: string): void }, nowMs: () => number): LossLog {
  const lost = new Map<LossCause, number>();
  let loggedMs = Number.NEGATIVE_INFINITY;

  function write(): void {
    for (const [cause, events] of lost) {
      const cure = LOSS_CURES[cause];
      log.warn(
        { cause, events },
        `${events === 1 ? '1 event' : `${events} events`} lost: ${LOSS_CAUSES[cause]}${cure === null ? '' : `; ${cure}`}`,
      );
    }
    lost.clear();
  }

  return {
    noteLosses(losses) {
      for (const { cause, count, transactionId } of losses)
        if (count > 0 && transactionId === undefined) lost.set(cause, (lost.get(cause) ?? 0) + count);
      if (lost.size === 0 || nowMs() - loggedMs < LOSSES_EVERY_MS) return;
      loggedMs = nowMs();
      write();
    },
    close: write,
  };
}
