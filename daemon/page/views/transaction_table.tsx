/** A table of transactions; the name of each is a link to its lanes. */
import type { ComponentChildren } from 'preact';
import type { ReceivedTransaction } from '../../contract/received.ts';
import { formatExactDuration, formatShortDuration, groupDigits } from '../../model/wording/exact_times.ts';
import { formatName } from '../../model/wording/names.ts';
import { formatWallClock } from '../numbers/wall_clock.ts';
import { Table } from './table.tsx';
import { TransactionLink } from './transaction_link.tsx';

interface Props {
  caption: ComponentChildren;
  transactions: readonly ReceivedTransaction[];
  /** Text that follows the name of a transaction. */
  renderNote?: (transaction: ReceivedTransaction) => ComponentChildren;
  /** Buttons for a transaction, in a column of their own. */
  renderActions?: (transaction: ReceivedTransaction) => ComponentChildren;
}

export function TransactionTable({ caption, transactions, renderNote, renderActions }: Props) {
  return (
    <div class="list">
      <Table
        caption={caption}
        headings={[
          ...(renderActions ? ([['Choose as', 'spoken']] as const) : []),
          'Transaction',
          ['Duration', 'number'],
          'Start (UTC)',
          'Services',
          'Nodes',
          ['Events', 'number'],
          'Result',
        ]}
      >
        {transactions.map((transaction) => {
          const { transaction_id, first_timestamp_ns, services, nodes, duration_ns, event_count, error_count } =
            transaction;
          return (
            <tr key={transaction_id}>
              {renderActions && <td>{renderActions(transaction)}</td>}
              <th scope="row">
                <TransactionLink transaction={transaction_id} />
                {renderNote?.(transaction)}
              </th>
              <td class="number" title={formatExactDuration(BigInt(duration_ns))}>
                {formatShortDuration(BigInt(duration_ns))}
              </td>
              <td class="digits">{formatWallClock(BigInt(first_timestamp_ns))}</td>
              <td>{services.map(formatName).join(', ')}</td>
              <td>{nodes.map(formatName).join(', ')}</td>
              <td class="number">{groupDigits(event_count)}</td>
              <td>{error_count > 0 ? `✕ ${groupDigits(error_count)} failed` : '✓'}</td>
            </tr>
          );
        })}
      </Table>
    </div>
  );
}
