/** Notes that events of a side are missing, which makes the side's numbers too small. */
import type { ReceivedCoverage } from '../../../contract/received.ts';
import { beginMissing } from '../../losses/wording.ts';

interface Props {
  a: ReceivedCoverage | null;
  b: ReceivedCoverage | null;
}

export function Losses({ a, b }: Props) {
  return (
    <>
      {[a, b].map((coverage, side) => {
        if (!coverage || coverage.complete) return null;
        return (
          <p key={SIDES[side]} class="loss">
            ▲ {beginMissing(coverage, ` of ${SIDES[side]}`)}: its counts and times are at least as large as shown.
          </p>
        );
      })}
    </>
  );
}

const SIDES = ['A', 'B'];
