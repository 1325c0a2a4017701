/**
 * Shows the losses of the recordings: a row for each cause and node, with the share of lost events, the remedy and the
 * gaps.
 */
import { LOSS_CAUSES, LOSS_CURES } from '../../../../bpf/schema/losses.ts';
import type { Gap, LossSum, ReceivedCoverage } from '../../../contract/received.ts';
import { formatQuantity, percentText } from '../../../model/wording/amounts.ts';
import { formatShortDuration, groupDigits } from '../../../model/wording/exact_times.ts';
import { formatName } from '../../../model/wording/names.ts';
import { formatWallClock } from '../../numbers/wall_clock.ts';
import { Table } from '../table.tsx';

const RESTART = 'a service that restarts the agent';
/**
 * Remedies against further loss, by cause, including causes that are not faults. Keys are any strings, because another
 * version may report other causes.
 */
const CURES: ReadonlyMap<string, string | null> = new Map(
  Object.entries({
    ...LOSS_CURES,
    agent_stopped: RESTART,
    agent_killed: RESTART,
    retention: 'a larger --retain-bytes or --retain-age',
  }),
);
const CAUSES: ReadonlyMap<string, string> = new Map(Object.entries(LOSS_CAUSES));

export function Losses({ coverage: { losses, gaps = [] } }: { coverage: ReceivedCoverage }) {
  return (
    <section class="panel">
      <h2>What is missing</h2>
      <div class="wide">
        <Table headings={['Events', 'Node', 'Why', 'What helps', 'When']}>
          {losses.map((loss) => (
            <tr key={`${loss.cause} ${loss.node}`}>
              <td>
                {formatLost(loss.lost)}
                {loss.rate?.lost === loss.lost && `, ${percentText(loss.rate.share)}`}
              </td>
              <td>{loss.node ? formatName(loss.node) : '–'}</td>
              <td>{CAUSES.get(loss.cause) ?? formatName(loss.cause)}</td>
              <td>{CURES.get(loss.cause) ?? '–'}</td>
              <td>
                <Gaps gaps={gaps.filter((gap) => isOf(gap, loss))} />
              </td>
            </tr>
          ))}
        </Table>
      </div>
    </section>
  );
}

const isOf = (gap: Gap, { cause, node }: LossSum) => gap.cause === cause && gap.node === (node ?? gap.node);

const formatLost = (lost: number) => (lost > 0 ? groupDigits(lost) : 'not counted');

function Gaps({ gaps }: { gaps: readonly Gap[] }) {
  if (gaps.length === 1) return <>{formatGap(gaps[0]!)}</>;
  return (
    <details>
      <summary>{formatQuantity(gaps.length, 'gap')}</summary>
      {gaps.toReversed().map((gap) => (
        <div key={`${gap.from} ${gap.to} ${gap.service}`}>
          {formatGap(gap)}: {formatLost(gap.lost)}
        </div>
      ))}
    </details>
  );
}

function formatGap({ from, to }: Gap): string {
  const lastedNs = Number(BigInt(to) - BigInt(from));
  return `${formatWallClock(BigInt(from))}, ${formatShortDuration(lastedNs)}`;
}
