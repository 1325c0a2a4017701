/** Numbers values in order of first appearance, starting at 0. */
import { RunError } from '../errors.ts';

export interface Numbering<Value> {
  /** The values by their numbers. */
  readonly list: readonly Value[];
  numberOf(value: Value): number;
}

export function newNumbering<Value>(): Numbering<Value> {
  const list: Value[] = [];
  const numbers = new Map<Value, number>();
  return {
    list,
    numberOf(value) {
      const known = numbers.get(value);
      if (known !== undefined) return known;
      const number = list.push(value) - 1;
      numbers.set(value, number);
      return number;
    },
  };
}

/** Two numbers below this make one key that a double holds exactly. */
const PAIR_MAX = 2 ** 26;

export interface Pairs {
  readonly count: number;
  numberOf(first: number, second: number): number;
  firstOf(number: number): number;
  secondOf(number: number): number;
}

export function newPairs(): Pairs {
  const keys = newNumbering<number>();
  return {
    get count() {
      return keys.list.length;
    },
    numberOf(first, second) {
      if (first >= PAIR_MAX || second >= PAIR_MAX)
        throw new RunError(`the incident has more than ${PAIR_MAX} of a kind, or a thread id above`);
      return keys.numberOf(first * PAIR_MAX + second);
    },
    firstOf: (number) => Math.floor(keys.list[number]! / PAIR_MAX),
    secondOf: (number) => keys.list[number]! % PAIR_MAX,
  };
}
