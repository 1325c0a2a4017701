/** Which host records, what is missing and why, and the sessions that are open. */
import { useEffect, useState } from 'preact/hooks';
import { LOSS_CAUSES } from '../../../bpf/schema/losses.ts';
import type { Coverage, Readiness, Session } from '../feed/answers.ts';
import { counted } from '../numbers/amounts.ts';
import { grouped, shortDuration } from '../numbers/exact_times.ts';
import { clockText } from '../numbers/wall_clock.ts';
import { deleteSession } from '../replay/replay.ts';
import { usePage } from './context.ts';
import { FailureNote } from './failure_note.tsx';
import { shownName } from './names.ts';
import { useAnswer } from './use_answer.ts';

interface Shown {
  readiness: Readiness;
  coverage: Coverage;
  sessions: Session[];
}

const REFRESH_MS = 5000;

const MEANING: Readonly<Record<string, string>> = {
  recording: 'is recording',
  failing: 'runs, and cannot write: see its log',
  stopped: 'has ended',
  killed: 'was killed: it did not end by itself',
  silent: 'runs, and writes nothing',
  none: 'no agent ever wrote this recording',
};

/** What helps against a loss, by its cause. */
const REMEDIES: ReadonlyMap<string, string> = new Map([
  ['ring_full', 'a larger --ring-size of the agent, or fewer event types'],
  ['agent_stopped', 'a service that restarts the agent'],
  ['retention', 'a larger --retain-bytes or --retain-age of the agent'],
]);

const CAUSES: ReadonlyMap<string, string> = new Map(Object.entries(LOSS_CAUSES));

export function Health() {
  const { daemon, setCoverage, access } = usePage();
  const [round, setRound] = useState(0);
  const answer = useAnswer<Shown>(`health ${round}`, async (signal) => {
    const [readiness, { coverage }, { sessions }] = await Promise.all([
      daemon.askJson<Readiness>('/readyz', { signal }),
      daemon.askJson<{ coverage: Coverage }>('/api/events?limit=1&order=desc', { signal }),
      daemon.askJson<{ sessions: Session[] }>('/api/replay/sessions?limit=1000', { signal }),
    ]);
    return { readiness, coverage, sessions };
  });
  useEffect(() => setCoverage(answer.body?.coverage ?? null), [answer.body]);
  useEffect(() => {
    const timer = setInterval(() => document.hidden || setRound((last) => last + 1), REFRESH_MS);
    return () => clearInterval(timer);
  }, []);
  const { body, failure, askAgain } = answer;
  return (
    <main>
      {failure && <FailureNote failure={failure} onRetry={askAgain} />}
      {body && (
        <>
          <h1>{sentenceOf(body)}</h1>
          <Recordings readiness={body.readiness} />
          <Gaps coverage={body.coverage} />
          <Sessions
            sessions={body.sessions}
            mayDelete={access.scopes.includes('replay:control')}
            onDeleted={askAgain}
          />
        </>
      )}
    </main>
  );
}

function sentenceOf({ readiness: { recordings }, coverage: { complete, lost, gaps } }: Shown): string {
  const recording = recordings.filter(({ agent }) => agent.state === 'recording').map(({ node }) => node);
  const who = recording.length > 0 ? `${recording.join(', ')} is being recorded` : 'No agent is recording now';
  if (complete) return `${who}; nothing is known to be missing.`;
  const count =
    lost > 0
      ? `at least ${counted(lost, 'event')} ${lost === 1 ? 'is' : 'are'} missing`
      : 'events are missing, uncounted';
  return `${who}; ${count}, in ${gaps.length} ${gaps.length === 1 ? 'gap' : 'gaps'}.`;
}

function Recordings({ readiness: { recordings, unreadable } }: { readiness: Readiness }) {
  return (
    <section class="panel">
      <h2>Recordings</h2>
      <div class="wide">
        <table>
          <thead>
            <tr>
              <th scope="col">Node</th>
              <th scope="col">Agent</th>
              <th scope="col">Alive until</th>
              <th scope="col">From</th>
              <th scope="col">State</th>
            </tr>
          </thead>
          <tbody>
            {recordings.map(({ recording_id, node, agent, source, damaged }) => (
              <tr key={recording_id}>
                <th scope="row">{shownName(node)}</th>
                <td>{MEANING[agent.state] ?? agent.state}</td>
                <td>{agent.alive_at ?? '–'}</td>
                <td>{source}</td>
                <td>{damaged ? '✕ parts of it cannot be read' : 'readable'}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {unreadable.map(({ file, reason }) => (
        <p class="failure" key={file}>
          {file} cannot be read, and the others are served without it: {reason}
        </p>
      ))}
    </section>
  );
}

function Gaps({ coverage: { gaps } }: { coverage: Coverage }) {
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
              <th scope="col">Why</th>
              <th scope="col">What helps</th>
            </tr>
          </thead>
          <tbody>
            {gaps.map(({ from, to, lost, cause }) => (
              <tr key={`${from} ${to} ${cause}`}>
                <td>{clockText(BigInt(from))}</td>
                <td>{shortDuration(Number(BigInt(to) - BigInt(from)))}</td>
                <td>{lost > 0 ? grouped(lost) : 'not counted'}</td>
                <td>{CAUSES.get(cause) ?? shownName(cause)}</td>
                <td>{REMEDIES.get(cause) ?? '–'}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

interface SessionsProps {
  sessions: Session[];
  mayDelete: boolean;
  onDeleted: () => void;
}

function Sessions({ sessions, mayDelete, onDeleted }: SessionsProps) {
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
