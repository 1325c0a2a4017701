/** Losses and clock steps that wait for the next flush. */
import type { LossCause } from '../../../bpf/schema/losses.ts';
import type { ClockStep, Loss } from '../format/losses.ts';
import type { Batch } from './batch.ts';

/** Losses that wait; further ones widen one that has the same cause and event type. */
const PENDING_LOSSES_MAX = 1024;

/** Clock steps that wait; of more, the oldest are forgotten. */
const PENDING_CLOCK_STEPS_MAX = 1024;

/** Where nobody can count, the time is the loss. */
const UNCOUNTED: readonly LossCause[] = ['recording_removed', 'recording_damaged'];

export interface SideNotes {
  addLoss(loss: Loss): void;
  addClockStep(step: ClockStep): void;
  pending(): boolean;
  /** What is not committed; the next `committed` is about these, and they do not change any more. */
  take(): Pick<Batch, 'losses' | 'clockSteps'>;
  committed(): void;
  /** What was taken was not committed: it waits again. */
  failed(): void;
}

export function createSideNotes(): SideNotes {
  let losses: Loss[] = [];
  let steps: ClockStep[] = [];
  let takenLosses = 0;
  let takenSteps = 0;
  return {
    addLoss(loss) {
      if (loss.count === 0 && !UNCOUNTED.includes(loss.cause)) return;
      const { cause, eventType } = loss;
      const same = losses
        .slice(takenLosses)
        .findLast((other) => other.cause === cause && other.eventType === eventType);
      // Dropping block after block is one loss that goes on.
      if (!same || (losses.length < PENDING_LOSSES_MAX && cause !== 'store_failed')) losses.push({ ...loss });
      else widen(same, loss);
    },
    addClockStep(step) {
      steps.push({ ...step });
      if (steps.length - takenSteps > PENDING_CLOCK_STEPS_MAX) steps.splice(takenSteps, 1);
    },
    pending: () => losses.length > 0 || steps.length > 0,
    take() {
      takenLosses = losses.length;
      takenSteps = steps.length;
      return { losses: losses.slice(), clockSteps: steps.slice() };
    },
    committed() {
      losses = losses.slice(takenLosses);
      steps = steps.slice(takenSteps);
      takenLosses = takenSteps = 0;
    },
    failed() {
      takenLosses = takenSteps = 0;
    },
  };
}

function widen(loss: Loss, by: Loss): void {
  loss.count += by.count;
  if (by.fromNs < loss.fromNs) loss.fromNs = by.fromNs;
  if (by.toNs > loss.toNs) loss.toNs = by.toNs;
}
