/** The replay sessions of the daemon, each with a way to it, and to its end. */
import type { Session } from '../../feed/answers.ts';
import { grouped } from '../../numbers/exact_times.ts';
import { deleteSession } from '../../replay/replay.ts';
import { usePage } from '../context.ts';
import { shownName } from '../names.ts';

interface SessionsProps {
  sessions: Session[];
  mayDelete: boolean;
  onDeleted: () => void;
}

export function Sessions({ sessions, mayDelete, onDeleted }: SessionsProps) {
  const { daemon, go } = usePage();
  if (sessions.length === 0) return null;
  const remove = async (sessionId: string) => {
    await deleteSession(daemon, sessionId);
    onDeleted();
  };
  return (
    <section class="panel">
      <h2>Replay sessions</h2>
      <div class="wide">
        <table>
          <thead>
            <tr>
              <th scope="col">Transaction</th>
              <th scope="col">State</th>
              <th scope="col">Event</th>
              <th scope="col">Speed</th>
              <th scope="col">
                <span class="spoken">Actions</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {sessions.map(({ session_id, transaction_id, state, event_index, event_count, speed_factor }) => (
              <tr key={session_id}>
                <th scope="row">
                  <button
                    type="button"
                    class="link"
                    onClick={() => go({ view: 'lanes', transaction: transaction_id, session: session_id })}
                  >
                    {shownName(transaction_id)}
                  </button>
                </th>
                <td>{state}</td>
                <td>
                  {grouped(event_index)} of {grouped(event_count)}
                </td>
                <td>{speed_factor}×</td>
                <td>
                  <button type="button" disabled={!mayDelete} onClick={() => remove(session_id)}>
                    Delete
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
