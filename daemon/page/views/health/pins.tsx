/** The transactions that retention keeps. */
import { useState } from 'preact/hooks';
import type { ExactInteger } from '../../feed/daemon.ts';
import { asFailure, type Failure } from '../../feed/failure.ts';
import { clockText } from '../../numbers/wall_clock.ts';
import { usePage } from '../context.ts';
import { FailureNote } from '../failure_note.tsx';
import { shownName } from '../names.ts';

export interface Pin {
  transaction_id: string;
  from: ExactInteger;
  pinned_at: string;
  node: string;
}

interface Props {
  pins: readonly Pin[];
  mayUnpin: boolean;
  onUnpinned: () => void;
}

export function Pins({ pins, mayUnpin, onUnpinned }: Props) {
  const { daemon, go } = usePage();
  const [failure, setFailure] = useState<Failure | null>(null);
  if (pins.length === 0) return null;
  const unpin = async (transactionId: string) => {
    try {
      await daemon.askJson(`/api/transactions/${encodeURIComponent(transactionId)}/pin`, { method: 'DELETE' });
      setFailure(null);
      onUnpinned();
    } catch (error) {
      setFailure(asFailure(error));
    }
  };
  return (
    <section class="panel">
      <h2>Pinned transactions</h2>
      {failure && <FailureNote failure={failure} />}
      <div class="wide">
        <table>
          <thead>
            <tr>
              <th scope="col">Transaction</th>
              <th scope="col">Node</th>
              <th scope="col">Kept from (UTC)</th>
              <th scope="col">Pinned</th>
              <th scope="col">
                <span class="spoken">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {pins.map(({ transaction_id, node, from, pinned_at }) => (
              <tr key={`${node} ${transaction_id}`}>
                <th scope="row">
                  <button
                    type="button"
                    class="link"
                    onClick={() => go({ view: 'lanes', transaction: transaction_id, session: null, event: null })}
                  >
                    {shownName(transaction_id)}
                  </button>
                </th>
                <td>{shownName(node)}</td>
                <td class="digits">{clockText(BigInt(from))}</td>
                <td>{pinned_at}</td>
                <td>
                  <button type="button" disabled={!mayUnpin} onClick={() => unpin(transaction_id)}>
                    Unpin
                  </button>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}
