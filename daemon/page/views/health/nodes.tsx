/** The nodes of a fleet, and how far what each has recorded has arrived. */
import type { Coverage, Readiness } from '../../feed/answers.ts';
import { grouped } from '../../numbers/exact_times.ts';
import { clockText } from '../../numbers/wall_clock.ts';
import { shownName } from '../names.ts';

/** A fleet may have thousands of nodes: the ones furthest behind are shown. */
const NODES_MAX = 200;

/** How many nodes ship, as the beginning of a sentence. */
export function nodesText({ current, silent, ended }: NonNullable<Readiness['fleet']>['nodes']): string {
  const first = current === 0 ? 'No node ships now' : `${nodes(current)} ${current === 1 ? 'ships' : 'ship'} now`;
  const others = [
    silent > 0 ? `${nodes(silent)} ${silent === 1 ? 'is' : 'are'} silent` : '',
    ended > 0 ? `${nodes(ended)} ${ended === 1 ? 'has' : 'have'} ended` : '',
  ];
  return [first, ...others].filter(Boolean).join(', ');
}

const nodes = (count: number): string => `${grouped(count)} ${count === 1 ? 'node' : 'nodes'}`;

export function Nodes({ coverage: { nodes: known } }: { coverage: Coverage }) {
  const behind = known.toSorted((a, b) => (BigInt(a.recorded_until) < BigInt(b.recorded_until) ? -1 : 1));
  return (
    <section class="panel">
      <h2>Nodes</h2>
      <div class="wide">
        <table>
          <thead>
            <tr>
              <th scope="col">Node</th>
              <th scope="col">Arrived until (UTC)</th>
            </tr>
          </thead>
          <tbody>
            {behind.slice(0, NODES_MAX).map(({ node, recorded_until }) => (
              <tr key={node}>
                <th scope="row">{shownName(node)}</th>
                <td class="digits">{clockText(BigInt(recorded_until))}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {known.length > NODES_MAX && <p class="quiet">{nodes(known.length - NODES_MAX)} more are less far behind.</p>}
    </section>
  );
}
