/** Numbers the threads of a transaction, (node, tid), from 0 in order of appearance. */

export interface Thread {
  node: string;
  tid: number;
}

export interface Threads {
  /** The threads by number. */
  readonly list: readonly Thread[];
  /** The pages that have events of a thread, ascending, by thread number. */
  readonly pages: readonly number[][];
  /** It returns a function that numbers a node's threads. */
  ofNode(node: string): (tid: number) => number;
}

export function newThreads(): Threads {
  const list: Thread[] = [];
  const pages: number[][] = [];
  const byNode = new Map<string, Map<number, number>>();
  return {
    list,
    pages,
    ofNode(node) {
      const numbers = byNode.get(node) ?? new Map<number, number>();
      byNode.set(node, numbers);
      return (tid) => {
        const known = numbers.get(tid);
        if (known !== undefined) return known;
        pages.push([]);
        const number = list.push({ node, tid }) - 1;
        numbers.set(tid, number);
        return number;
      };
    },
  };
}
