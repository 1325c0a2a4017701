/** Notes which events are missing on either side, next to the numbers that are too small because of it. */
import type { Coverage } from '../../../contract/received.ts';
import { formatQuantity } from '../../numbers/amounts.ts';

interface Props {
  a: Coverage | null;
  b: Coverage | null;
}

export function Losses({ a, b }: Props) {
  return (
    <>
      {[a, b].map((coverage, side) => {
        if (!coverage || coverage.complete) return null;
        const { lost } = coverage;
        const what = lost > 0 ? `At least ${formatQuantity(lost, 'event')}` : 'Events, nobody could count how many,';
        return (
          <p key={SIDES[side]} class="loss">
            ▲ {what} of {SIDES[side]} {lost === 1 ? 'is' : 'are'} missing: its counts and times are at least as large as
            shown.
          </p>
        );
      })}
    </>
  );
}

const SIDES = ['A', 'B'];
