/**
 * Numbers rows by the meaning of their values. Rows with the same meaning have the same number, even in different
 * recordings.
 */
import { type Codes, type NativeGroups, nativeSums } from '../../../bpf/schema/native_sums.ts';

/** Rows `[from, to)`; the values of a row in `codes` determine its meaning. */
export interface CodedRows {
  codes: readonly Codes[];
  from: number;
  to: number;
  /** Scope within which equal codes have the same meaning, such as the dictionary that resolves them. */
  scope: object;
}

export interface RowNumbers<Meaning> {
  /** Sets `numbers[row]`. Meanings are numbered from 0 in the order of their first rows. */
  setNumbers(rows: CodedRows, describeRow: (row: number) => Meaning, numbers: Uint32Array): void;
  /** Number of different meanings so far. */
  readonly count: number;
  /** Forgets all meanings: the next meaning has number 0 again. */
  clear(): void;
}

/** Creates a numbering, which calls `onNew` with each new meaning and its JSON text. */
export function createRowNumbers<Meaning extends readonly (string | number | null)[]>(
  codesPerRow: number,
  onNew: (meaning: Meaning, json: string) => void,
): RowNumbers<Meaning> {
  const numberOfMeaning = new Map<string, number>();
  let known = new WeakMap<object, NativeGroups>();

  function assignNumber(meaning: Meaning): number {
    const json = JSON.stringify(meaning);
    let number = numberOfMeaning.get(json);
    if (number === undefined) {
      number = numberOfMeaning.size;
      numberOfMeaning.set(json, number);
      onNew(meaning, json);
    }
    return number;
  }

  function findOrCreateGroups(scope: object): NativeGroups {
    let groups = known.get(scope);
    if (!groups) {
      groups = nativeSums.createGroups(codesPerRow);
      known.set(scope, groups);
    }
    return groups;
  }

  return {
    setNumbers({ codes, from, to, scope }, describeRow, numbers) {
      const groups = findOrCreateGroups(scope);
      for (let row = from; ; ) {
        row = nativeSums.findGroups(groups, codes, row, to, numbers);
        if (row === to) return;
        nativeSums.addGroup(groups, codes, row, assignNumber(describeRow(row)));
      }
    },
    get count() {
      return numberOfMeaning.size;
    },
    clear() {
      numberOfMeaning.clear();
      known = new WeakMap();
    },
  };
}
