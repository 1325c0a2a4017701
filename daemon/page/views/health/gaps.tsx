/** What is missing in the recordings, why, and what helps. */
import { LOSS_CAUSES, LOSS_CURES } from '../../../../bpf/schema/losses.ts';
import type { Coverage } from '../../feed/answers.ts';
import { grouped, shortDuration } from '../../numbers/exact_times.ts';
import { clockText } from '../../numbers/wall_clock.ts';
import { shownName } from '../names.ts';

/** What helps to miss less from now on, where the agent has nothing to say. */
const REMEDIES: ReadonlyMap<string, string> = new Map([
  ['agent_stopped', 'a service that restarts the agent'],
  ['agent_killed', 'a service that restarts the agent'],
  ['retention', 'a larger --retain-bytes or --retain-age of the agent'],
]);

const CURES: ReadonlyMap<string, string | null> = new Map(Object.entries(LOSS_CURES));
const CAUSES: ReadonlyMap<string, string> = new Map(Object.entries(LOSS_CAUSES));

export function Gaps({ coverage: { gaps } }: { coverage: Coverage }) {
  if (gaps.length === 0) return null;
  return (
    <section class="panel">
      <h2>What is missing</h2>
      <div class="wide">
        <table>
          <thead>
            <tr>
              <th scope="col">From</th>
              <th scope="col">For</th>
              <th scope="col">Events</th>
              <th scope="col">Node</th>
              <th scope="col">Why</th>
              <th scope="col">What helps</th>
            </tr>
          </thead>
          <tbody>
            {gaps.map(({ from, to, lost, cause, node }) => (
              <tr key={`${from} ${to} ${cause} ${node}`}>
                <td>{clockText(BigInt(from))}</td>
                <td>{shortDuration(Number(BigInt(to) - BigInt(from)))}</td>
                <td>{lost > 0 ? grouped(lost) : 'not counted'}</td>
                <td>{node === null ? 'unknown' : shownName(node)}</td>
                <td>{CAUSES.get(cause) ?? shownName(cause)}</td>
                <td>{CURES.get(cause) ?? REMEDIES.get(cause) ?? '–'}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
