/**
 * The replay clock is one equation:
 *
 *   position(now) = reference position + rate * (now - reference time)
 *
 * The pair (reference position, reference time) is set only when the clock starts, pauses, jumps or changes its speed,
 * so errors do not accumulate. All values are BigInt and the rate is the decimal fraction that the caller wrote (0.1 is
 * 1/10, not the nearest double): every result is within 1 ns of the exact value, however much time has passed. Setting
 * the pair loses less than 1 ns.
 */
export type SteadyNow = () => bigint;

export interface ReplayClock {
  readonly running: boolean;
  positionNs(): bigint;
  /**
   * Computes the time of the steady clock at which this clock reaches a position; throws unless this clock is running.
   * An integer number gives the same result as the BigInt, with less work for the garbage collector.
   */
  computeDueNs(positionNs: bigint | number): bigint;
  /** Starts the clock now or at `startsAtNs`, which may be in the future; the position stays until then. */
  play(startsAtNs?: bigint): void;
  pause(): void;
  jump(positionNs: bigint): void;
  setSpeed(speedFactor: number): void;
}

export function createClock(now: SteadyNow, speedFactor: number): ReplayClock {
  let running = false;
  let rate = computeExactRate(speedFactor);
  let referencePositionNs = 0n;
  let referenceTimeNs = now();
  /** Caches the deadline that was computed last: each event's deadline is requested several times. */
  let knownAtNs = Number.NaN;
  let knownDueNs = 0n;
  /** The reference position and the rate as doubles, for computing deadlines without BigInt. */
  let fast = { positionNs: 0, numerator: Number(rate.numerator), denominator: Number(rate.denominator) };

  const positionNs = () => {
    const passedNs = running ? now() - referenceTimeNs : 0n;
    return passedNs > 0n ? referencePositionNs + (passedNs * rate.numerator) / rate.denominator : referencePositionNs;
  };
  /** Returns the next reference time: now, or the clock's start if that is still in the future. */
  const startOrNow = () => {
    const nowNs = now();
    return running && referenceTimeNs > nowNs ? referenceTimeNs : nowNs;
  };
  const takeReference = (atNs: bigint, timeNs = startOrNow()) => {
    referencePositionNs = atNs;
    referenceTimeNs = timeNs;
    const numerator = Number(rate.numerator);
    const denominator = Number(rate.denominator);
    fast = { positionNs: Number(atNs), numerator, denominator };
    knownAtNs = Number.NaN;
  };

  return {
    get running() {
      return running;
    },
    positionNs,
    computeDueNs(atNs) {
      if (!running) throw new Error('a paused clock has no deadlines');
      if (typeof atNs === 'number') {
        if (atNs === knownAtNs) return knownDueNs;
        const dividend = (atNs - fast.positionNs) * fast.denominator;
        if (Number.isSafeInteger(dividend) && Number.isSafeInteger(fast.positionNs)) {
          knownAtNs = atNs;
          knownDueNs = referenceTimeNs + BigInt(divideNumbersUp(dividend, fast.numerator));
          return knownDueNs;
        }
      }
      return referenceTimeNs + divideUp((BigInt(atNs) - referencePositionNs) * rate.denominator, rate.numerator);
    },
    play(startsAtNs) {
      if (running) return;
      takeReference(referencePositionNs, startsAtNs);
      running = true;
    },
    pause() {
      takeReference(positionNs());
      running = false;
    },
    jump: (atNs) => takeReference(atNs),
    setSpeed(next) {
      const atNs = positionNs();
      rate = computeExactRate(next);
      takeReference(atNs);
    },
  };
}

interface Rate {
  numerator: bigint;
  denominator: bigint;
}

/**
 * Converts a speed factor from 0.001 to 1000 to an exact fraction. JavaScript formats no number in this range with an
 * exponent.
 */
function computeExactRate(speedFactor: number): Rate {
  const match = /^(\d+)(?:\.(\d+))?$/.exec(String(speedFactor));
  const [, whole = '', fraction = ''] = match ?? [];
  const numerator = BigInt(whole + fraction);
  if (numerator === 0n) throw new RangeError(`not a speed factor: ${speedFactor}`);
  return { numerator, denominator: 10n ** BigInt(fraction.length) };
}

/** Rounds up, so that the clock has reached the position at the deadline. BigInt division rounds towards zero. */
function divideUp(dividend: bigint, divisor: bigint): bigint {
  const quotient = dividend / divisor;
  return dividend > 0n && quotient * divisor !== dividend ? quotient + 1n : quotient;
}

/**
 * `divideUp` for integers of type `number`. Dividend minus remainder is a multiple of the divisor, so the double
 * division is exact.
 */
function divideNumbersUp(dividend: number, divisor: number): number {
  if (divisor === 1) return dividend;
  const remainder = dividend % divisor;
  const quotient = (dividend - remainder) / divisor;
  return remainder > 0 ? quotient + 1 : quotient;
}
