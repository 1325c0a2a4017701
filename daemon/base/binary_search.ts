/**
 * Returns the first index in `[from, to)` for which `holds` is true, or `to` if there is none. From that index on,
 * `holds` must be true for all indexes.
 */
export function findFirstPlace(from: number, to: number, holds: (place: number) => boolean): number {
  let [low, high] = [from, to];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (holds(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** Returns the index of the first value in ascending `values` that is at least `limit`, or `to` if there is none. */
export function findFirstNotBelow<T extends number | bigint | string>(
  values: ArrayLike<T>,
  limit: T,
  from = 0,
  to = values.length,
): number {
  return findFirstPlace(from, to, (place) => values[place]! >= limit);
}

/** Returns the index of the first value in ascending `values` that is above `limit`, or `to` if there is none. */
export function findFirstAbove<T extends number | bigint | string>(
  values: ArrayLike<T>,
  limit: T,
  from = 0,
  to = values.length,
): number {
  return findFirstPlace(from, to, (place) => values[place]! > limit);
}

/**
 * Works like `findFirstPlace`, but is faster if the index is near `from`: the step doubles until it passes the index.
 * `holds` is called about 2 * log2(distance) times.
 */
export function findFirstPlaceNear(from: number, to: number, holds: (place: number) => boolean): number {
  let low = from;
  let step = 1;
  while (low + step <= to && !holds(low + step - 1)) {
    low += step;
    step *= 2;
  }
  return findFirstPlace(low, Math.min(to, low + step - 1), holds);
}
