/** Families of tasks whose owners are known, in words of test/kernel/lineage.c. Each write has a size of its own. */
import type { Event } from './guest_query.ts';

export const FAMILIES: Readonly<Record<string, readonly string[]>> = {
  own: ['mark', 'txn=own', 'say', '101'],
  forked: ['mark', 'txn=forked', 'fork', '{', 'say', '103', '}'],
  spawned: ['mark', 'txn=spawned', 'spawn', '{', 'say', '107', '}'],
  executed: ['mark', 'txn=executed', 'exec', '{', 'say', '109', '}'],
  thread: ['mark', 'txn=thread', 'thread', '{', 'say', '113', '}', 'join'],
  daemon: ['mark', 'txn=daemon', 'fork', '{', 'setsid', 'fork', '{', 'say', '127', '}', '}'],
  ended: ['mark', 'txn=ended', 'mark', 'end', 'say', '131'],
  outlived: ['mark', 'txn=outlived', 'thread', '{', 'wait', '0', 'say', '137', '}', 'mark', 'end', 'post', '0', 'join'],
  unlabelled: ['say', '139'],
  process: ['mark', 'proc txn=process', 'thread', '{', 'say', '149', '}', 'join'],
  each: [
    'thread',
    '{',
    'mark',
    'txn=one',
    'say',
    '151',
    '}',
    'thread',
    '{',
    'mark',
    'txn=two',
    'say',
    '157',
    '}',
    'join',
  ],
};

const NOBODY = 'nobody';

/** Maps the bytes of a write to its transaction. */
const OWNERS: Readonly<Record<number, string>> = {
  ...{ 101: 'own', 103: 'forked', 107: 'spawned', 109: 'executed', 113: 'thread', 127: 'daemon', 149: 'process' },
  ...{ 131: NOBODY, 137: NOBODY, 139: NOBODY, 151: 'one', 157: 'two' },
};

export interface Owned {
  /** `the write of 101 bytes: forked, not own` */
  wrong: string[];
  /** Number of writes that have no event. */
  missing: number;
  tasks: number;
}

/** `events` contains all writes that were recorded. */
export function ownersOf(events: readonly Event[]): Owned {
  const said = events.filter(({ file }) => file?.startsWith('/tmp/truth-'));
  const tasks = Object.entries(OWNERS).map(([bytes, owner]) => {
    const seen = said.filter(({ result }) => result === Number(bytes)).map((event) => event.transaction_id ?? NOBODY);
    return { name: `the write of ${bytes} bytes`, owner, seen };
  });
  const wrong = tasks.filter(({ owner, seen }) => seen.length > 1 || seen.some((each) => each !== owner));
  return {
    wrong: wrong.map(({ name, owner, seen }) => `${name}: ${seen.join(' and ')}, not ${owner}`),
    missing: tasks.filter(({ seen }) => seen.length === 0).length,
    tasks: tasks.length,
  };
}
