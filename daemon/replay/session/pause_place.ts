/** Where a session that plays pauses by itself: at the end of what its caller waits for, before what is written back. */
import type { Until } from '../contract.ts';
import type { ReplayPlan } from '../plan/planner.ts';

export interface PausePlace {
  /** What was asked for; null if the session plays to its end, as far as that is known. */
  until(): Until | null;
  /** The position; null if there is none, or while it is not known. */
  atNs(): number | null;
  /** Takes what is asked for. A session that is at the place or past it plays on. */
  aim(until: Until | null): void;
  /** Aims again from another position. */
  aimAgain(): void;
  clear(): void;
  /** Waits for what replaces the layout; until then the place is that of the layout that is played. */
  movedBy<Result>(moving: Promise<Result>): Promise<Result>;
  /** Takes the plan's layout, whose ends may not be known yet. */
  laidOut(): void;
  /** Takes note of a change of the plan's outline. */
  outlined(): void;
}

export interface PausePlaceOptions {
  plan: Pick<ReplayPlan, 'outline'>;
  isLooping: () => boolean;
  /** Where the session is, with all that was played. */
  positionNs: () => number;
}

export function createPausePlace({ plan, isLooping, positionNs }: PausePlaceOptions): PausePlace {
  let asked: Until | null = null;
  /** Where the session was then, while it is not known whether that is past the place. */
  let askedAtNs: number | null = null;
  /** The ends of the layout that is played. A change of the deadline moves neither, but the plan looks for it again. */
  let ends = plan.outline.survey;
  let isMoving = false;

  function until(): Until | null {
    return isLooping() || (ends && ends.durationNs >= ends.endNs) ? null : asked;
  }

  function decide(): void {
    if (!ends || askedAtNs === null) return;
    if (askedAtNs >= ends.durationNs) asked = null;
    askedAtNs = null;
  }

  function aim(wanted: Until | null): void {
    asked = wanted;
    askedAtNs = positionNs();
    decide();
  }

  function laidOut(): void {
    ends = plan.outline.survey;
    decide();
  }

  function outlined(): void {
    if (plan.outline.survey && !isMoving) laidOut();
  }

  return {
    ...{ until, aim, laidOut, outlined },
    atNs: () => (ends && until() ? ends.durationNs : null),
    aimAgain: () => aim(asked),
    clear() {
      asked = null;
    },
    async movedBy(moving) {
      isMoving = true;
      try {
        const moved = await moving;
        laidOut();
        return moved;
      } finally {
        isMoving = false;
        outlined();
      }
    },
  };
}
