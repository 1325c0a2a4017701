/** Which losses of calls in progress stand for calls that are known, and are not counted a second time. */
import { addInProgress, IN_PROGRESS } from '../../../daemon/coverage/in_progress.ts';
import type { NodeLoss, UnendedEvent } from '../../../daemon/store/store.ts';

const NODE = 'n';
const AT = 1000n;

const lossOf = (lost: number, fromNs: bigint, toNs = fromNs, node = NODE): NodeLoss => ({
  ...{ node, lost, fromNs, toNs },
  cause: IN_PROGRESS,
});
/** A call that was in progress when its agent ended, and belongs to another answer. */
const known = { node: NODE, timestamp_ns: AT, untilNs: AT } as UnendedEvent;

function lossesLeft(losses: readonly NodeLoss[], lost: readonly UnendedEvent[]): NodeLoss[] {
  const own = { events: [], lost: [], unlisted: [] };
  const spans = [{ node: NODE, fromNs: 0n, toNs: 5000n, end: 'killed' as const, isWholeFile: false }];
  return addInProgress(losses, { own, lost, isSelected: false }, { spans, window: { nowNs: 9000n } }).losses;
}

test.each<[what: string, losses: NodeLoss[], known: UnendedEvent[], left: NodeLoss[]]>([
  ['of the one known call', [lossOf(1, AT)], [known], []],
  ['of two calls, of which one is known', [lossOf(1, AT), lossOf(1, AT)], [known], [lossOf(1, AT)]],
  ['of several calls at once', [lossOf(3, AT)], [known], [lossOf(3, AT)]],
  ['of a call that began at an unknown time', [lossOf(1, AT, AT + 1n)], [known], [lossOf(1, AT, AT + 1n)]],
  ['of another time', [lossOf(1, AT + 1n)], [known], [lossOf(1, AT + 1n)]],
  ['of another node', [lossOf(1, AT, AT, 'other')], [known], [lossOf(1, AT, AT, 'other')]],
  ['without a known call', [lossOf(1, AT)], [], [lossOf(1, AT)]],
])('a loss %s: those that are left', (_, losses, calls, left) => {
  expect(lossesLeft(losses, calls)).toEqual(left);
});
