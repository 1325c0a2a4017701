/**
 * Keeps answers for as long as no writer commits: many questions are about the same transaction, and most files have no
 * writer.
 */
import { RecentMap } from '../recent_map.ts';

/** Together these bound the memory, whatever clients ask. */
const ANSWERS_MAX = 512;
const LIST_MAX = 100;
const KEY_LENGTH_MAX = 1000;

type Argument = string | number | bigint | undefined;

/**
 * Returns a function that answers as `work` does. Its callers share an answer and must not change it. One that `isSmall`
 * refuses is not kept.
 */
export type Keep = <Arguments extends readonly Argument[], Answer>(
  work: (...args: Arguments) => Answer,
  isSmall?: (answer: Answer) => boolean,
) => (...args: Arguments) => Answer;

/** Longer lists are read again for each question. */
export const isShort = ({ length }: readonly unknown[]): boolean => length <= LIST_MAX;

/** `version` returns a number that changes whenever another connection has committed. */
export function keepUntilCommit(version: () => number): Keep {
  return (work, isSmall = () => true) => {
    let keptAt = version();
    let kept = new RecentMap<string, { answer: ReturnType<typeof work> }>(ANSWERS_MAX);
    return (...args) => {
      if (version() !== keptAt) {
        keptAt = version();
        kept = new RecentMap(ANSWERS_MAX);
      }
      const key = keyOf(args);
      const known = kept.get(key);
      if (known) return known.answer;
      const answer = work(...args);
      if (isSmall(answer) && key.length <= KEY_LENGTH_MAX) kept.set(key, { answer });
      return answer;
    };
  };
}

function keyOf(args: readonly Argument[]): string {
  return args.map((value) => `${typeof value} ${String(value).length} ${String(value)}`).join(' ');
}
