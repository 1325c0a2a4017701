/** The order of a run's suites: which one starts next, beside those that run. */
import { KINDS, kindsOf } from './kinds.ts';

interface Test {
  path: string;
}

export interface Queue<T extends Test> {
  /** Takes the first suite that may start beside those that run. */
  take(running: readonly T[]): T | undefined;
}

/** Suites of the lanes that take longest begin first, as the run cannot end before them. */
export function newQueue<T extends Test>(tests: readonly T[]): Queue<T> {
  const waiting = tests.toSorted((a, b) => rankOf(a) - rankOf(b));
  return {
    take(running) {
      const at = waiting.findIndex((test) => mayStart(test, running));
      return at < 0 ? undefined : waiting.splice(at, 1)[0];
    },
  };
}

function mayStart(test: Test, running: readonly Test[]): boolean {
  if (running.some(isAlone)) return false;
  if (isAlone(test)) return running.length === 0;
  return lanesOf(test).every((lane) => {
    const { atOnce = Number.POSITIVE_INFINITY } = KINDS[lane]!;
    return running.filter((other) => lanesOf(other).includes(lane)).length < atOnce;
  });
}

const isAlone = ({ path }: Test) => kindsOf(path).includes('alone');

/** The words of a suite that say how many of them may run at once. */
function lanesOf({ path }: Test): string[] {
  const kinds = kindsOf(path);
  return kinds.filter((kind) => KINDS[kind]?.atOnce && !(kind === 'root' && kinds.includes('beside')));
}

function rankOf(test: Test): number {
  if (isAlone(test)) return 3;
  if (lanesOf(test).includes('root')) return 0;
  return kindsOf(test.path).length > 0 ? 1 : 2;
}
