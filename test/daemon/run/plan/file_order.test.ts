/** Tests on which files the order of the calls identifies them. */
import type { FileKind } from '../../../../bpf/schema/owner.ts';
import { STREAM_FLAGS } from '../../../../daemon/run/format/plan_file.ts';
import { START } from '../../recorded.ts';
import { incidentOf, planOf } from '../planned.ts';

const MS = 1_000_000n;

interface Written {
  file: string;
  at: bigint;
  kind?: FileKind;
}

/** Whether each stream is in order; each call is made by a thread of its own and takes 10 ms. */
function inOrder(calls: readonly Written[]): boolean[] {
  const rows = calls.map(({ file, at, kind = 'regular' }, tid) => {
    const own = { file, fileKind: kind, tid, comm: `worker-${tid}`, fd: 5, requested: 64n };
    return { at: START + at * MS, duration: 10n * MS, ...own };
  });
  return planOf(incidentOf(rows)).streams.map(({ flags }) => (flags & STREAM_FLAGS.in_order) !== 0);
}

test.each([
  [
    'a file, consecutively',
    [
      { file: '/a', at: 0n },
      { file: '/a', at: 10n },
    ],
    [true, true],
  ],
  [
    'a file, concurrently',
    [
      { file: '/a', at: 0n },
      { file: '/a', at: 5n },
    ],
    [false, false],
  ],
  [
    'two files, concurrently',
    [
      { file: '/a', at: 0n },
      { file: '/b', at: 5n },
    ],
    [true, true],
  ],
  [
    'a file and what is left of it at once',
    [
      { file: '/a', at: 0n },
      { file: '/a (deleted)', at: 5n },
    ],
    [false, false],
  ],
] satisfies [string, Written[], boolean[]][])('%s', (_, calls, expected) => expect(inOrder(calls)).toEqual(expected));

test.each(['socket', 'pipe', 'anonymous'] as const)(
  'of kind %s: each has calls in order, but the runner knows them only by their kind',
  (kind) => {
    const each = (gap: bigint) => [0n, 1n, 2n].map((n) => ({ file: `${kind}:[${n}]`, at: n * gap, kind }));
    expect(inOrder(each(5n))).toEqual([false, false, false]);
    expect(inOrder(each(10n))).toEqual([true, true, true]);
  },
);
