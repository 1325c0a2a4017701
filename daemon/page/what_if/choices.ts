/** What the latency can be narrowed to: types, services and nodes that a transaction has. */
import type { LanesModel } from '../lanes/model.ts';
import { OTHER } from '../lanes/shares.ts';

export interface Choices {
  types: string[];
  services: string[];
  nodes: string[];
}

/** Each in the order of its first event. */
export function choicesOf({ columns, shares }: Pick<LanesModel, 'columns' | 'shares'>): Choices {
  const { count, threads, recordings, thread, types, type } = columns;
  const [threadsSeen, typesSeen] = [new Set<number>(), new Set<number>()];
  for (let row = 0; row < count; row++) {
    if (shares[row] === OTHER) continue;
    threadsSeen.add(thread[row]!);
    typesSeen.add(type[row]!);
  }
  const seen = Array.from(threadsSeen, (at) => threads[at]!);
  return {
    // A type without a name is of a newer daemon, which alone knows what it is called.
    types: Array.from(typesSeen, (id) => types.get(id)).filter((name) => name !== undefined),
    services: [...new Set(seen.map(({ service }) => service))],
    nodes: [...new Set(seen.map(({ recording }) => recordings[recording]!.node))],
  };
}
