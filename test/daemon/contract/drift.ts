/** Finds where an example says something else than a real answer. */

interface Compared {
  /** Names of objects whose keys are data: an example may leave some out. */
  maps?: readonly string[];
  /** Names of values that differ from run to run; without it no values are compared, only their types. */
  varying?: readonly string[];
}

type Parent = Readonly<Record<string, unknown>>;

const isParent = (value: unknown): value is Parent => typeof value === 'object' && value !== null;

/** Returns the places that differ, as paths. Each element of an example's list must equal one of the real list. */
export function driftOf(example: unknown, real: unknown, compared: Compared = {}, at = ''): string[] {
  if (Array.isArray(example) && Array.isArray(real)) return listDrift(example, real, compared, at);
  if (Array.isArray(example) !== Array.isArray(real) || isParent(example) !== isParent(real)) return [at];
  if (isParent(example) && isParent(real)) return objectDrift(example, real, compared, at);
  const { varying } = compared;
  const name = at.split('.').findLast((part) => part !== '[]') ?? '';
  if (varying && !varying.includes(name)) return example === real ? [] : [at];
  return typeof example === typeof real || example === null || real === null ? [] : [at];
}

function listDrift(example: readonly unknown[], real: readonly unknown[], compared: Compared, at: string): string[] {
  if ((example.length === 0) !== (real.length === 0)) return [at];
  return example.flatMap((item) => {
    const found = real.map((other) => driftOf(item, other, compared, `${at}.[]`));
    // The nearest element is the one that was meant.
    return found.reduce((fewest, some) => (some.length < fewest.length ? some : fewest));
  });
}

function objectDrift(example: Parent, real: Parent, compared: Compared, at: string): string[] {
  const isMap = compared.maps?.includes(at.slice(1)) ?? false;
  const surplus = Object.keys(example).filter((key) => !(key in real));
  const missing = isMap ? [] : Object.keys(real).filter((key) => !(key in example));
  const shared = Object.keys(example).filter((key) => key in real);
  return [
    ...[...surplus, ...missing].map((key) => `${at}.${key}`),
    ...shared.flatMap((key) => driftOf(example[key], real[key], compared, `${at}.${key}`)),
  ];
}
