/**
 * Returns the first place in `[from, to)` for which `holds` is true, or `to`. `holds` must then be true for all later
 * places.
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

/** Returns the first place in ascending `values` with a value that is not below `limit`, or `to`. */
export function findFirstNotBelow<T extends number | bigint | string>(
  values: ArrayLike<T>,
  limit: T,
  from = 0,
  to = values.length,
): number {
  return findFirstPlace(from, to, (place) => values[place]! >= limit);
}

/** Returns the first place in ascending `values` with a value above `limit`, or `to`. */
export function findFirstAbove<T extends number | bigint | string>(
  values: ArrayLike<T>,
  limit: T,
  from = 0,
  to = values.length,
): number {
  return findFirstPlace(from, to, (place) => values[place]! > limit);
}

/**
 * Works like `findFirstPlace`, but is faster if the place is near `from`: the step doubles until it passes the place.
 * `holds` is called about twice the logarithm of the distance.
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
