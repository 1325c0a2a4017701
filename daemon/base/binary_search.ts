/**
 * The first place in `[from, to)` for which `holds`, which must then hold for all later ones; `to` when there is none.
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

/** Likewise in ascending `values`: the first place with a value that is not below `limit`. */
export function findFirstNotBelow<T extends number | bigint | string>(
  values: ArrayLike<T>,
  limit: T,
  from = 0,
  to = values.length,
): number {
  return findFirstPlace(from, to, (place) => values[place]! >= limit);
}

/** Likewise: the first place with a value above `limit`. */
export function findFirstAbove<T extends number | bigint | string>(
  values: ArrayLike<T>,
  limit: T,
  from = 0,
  to = values.length,
): number {
  return findFirstPlace(from, to, (place) => values[place]! > limit);
}

/**
 * `findFirstPlace` for a place that is near `from`: steps that double until one is behind it. It looks at some twice the
 * logarithm of the distance.
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
