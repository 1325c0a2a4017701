/** Shows which hosts are recorded, which events are missing and why, and the open sessions. */

import { useEffect, useState } from 'preact/hooks';
import type { ListedPin, Readiness, ReceivedCoverage, ReceivedSession } from '../../../contract/received.ts';
import { formatBytes, formatQuantity, percentText } from '../../../model/wording/amounts.ts';
import { groupDigits } from '../../../model/wording/exact_times.ts';
import { formatName } from '../../../model/wording/names.ts';
import { type Failure, toFailure } from '../../api/failure.ts';
import { computeAgentCost } from '../../api/metrics.ts';
import { describeLosses } from '../../losses/wording.ts';
import { formatWallClock } from '../../numbers/wall_clock.ts';
import { deleteSession } from '../../replay/replay.ts';
import { usePage } from '../context.ts';
import { FailureNote } from '../failure_note.tsx';
import { Table } from '../table.tsx';
import { useAnswer } from '../use_answer.ts';
import { Losses } from './losses.tsx';

/** Each part sends its own request, so that a failed or slow request does not affect the other parts. */
export function Health() {
  const { daemon, setCoverage, access } = usePage();
  const usePart = <Body,>(path: string) => useRefreshed((signal) => daemon.askJson<Body>(path, { signal }));
  const readiness = usePart<Readiness>('/readyz');
  const newest = usePart<{ coverage: ReceivedCoverage }>('/api/events?limit=1&order=desc&coverage=full');
  const sessions = usePart<{ sessions: ReceivedSession[] }>('/api/replay/sessions?limit=1000');
  const pins = usePart<{ pins: ListedPin[] }>('/api/pins');
  // The daemon's metrics in Prometheus' text format.
  const metrics = useRefreshed(async (signal) =>
    (await daemon.ask('/metrics', { signal, headers: { Accept: 'text/plain' } })).text(),
  );
  const coverage = newest.body?.coverage ?? null;
  useEffect(() => setCoverage(newest.isOld ? null : coverage), [coverage, newest.isOld]);
  const mayChange = access.scopes.includes('replay:control');
  return (
    <main>
      {isKnown(readiness) && isKnown(newest) && (
        <h1>
          {describeRecorded(readiness)}; {describeMissing(newest)}.
        </h1>
      )}
      <OldParts
        parts={[
          [readiness.body?.fleet ? 'Nodes' : 'Recordings', readiness],
          ['What is missing', newest],
          ['Cost of the agent', metrics],
          ['Replay sessions', sessions],
          ['Pinned transactions', pins],
        ]}
      />
      {readiness.body && !readiness.body.fleet && <Recordings readiness={readiness.body} />}
      {readiness.body?.fleet && coverage && <Nodes coverage={coverage} />}
      {coverage?.complete === false && <Losses coverage={coverage} />}
      {metrics.body !== null && <AgentCost metrics={metrics.body} />}
      {sessions.body && (
        <Sessions sessions={sessions.body.sessions} mayDelete={mayChange} onDeleted={sessions.askAgain} />
      )}
      {pins.body && <Pins pins={pins.body.pins} mayUnpin={mayChange} onUnpinned={pins.askAgain} />}
    </main>
  );
}

/** Shows each failure once for all parts, and lists the parts that are old or unknown because of a failure. */
function OldParts({ parts }: { parts: [name: string, part: Refreshed<unknown>][] }) {
  const failed = parts.map(([, part]) => part).filter(({ failure }) => failure);
  const retry = () => {
    for (const { askAgain } of failed) askAgain();
  };
  const failures = new Map(failed.map(({ failure }) => [failure!.detail, failure!]));
  return (
    <>
      {[...failures].map(([detail, failure]) => (
        <FailureNote key={detail} failure={failure} onRetry={retry} />
      ))}
      {parts.map(
        ([name, part]) =>
          part.isOld && (
            <p class="loss" key={name}>
              {name}: {part.at === null ? 'not known yet' : `as of ${part.at} UTC`}.
            </p>
          ),
      )}
    </>
  );
}

/** Whether the part has an answer, or is known to have none because the request has failed or is late. */
function isKnown({ body, isOld }: Refreshed<unknown>): boolean {
  return body !== null || isOld;
}

function describeRecorded({ body, ...part }: Refreshed<Readiness>): string {
  if (!body) return 'It is not known what is being recorded';
  if (body.fleet) return describeNodes(body.fleet.nodes) + formatAge(part);
  const recording = body.recordings
    .filter(({ agent }) => agent.state === 'recording')
    .map(({ node }) => formatName(node));
  const who = recording.length > 0 ? `${recording.join(', ')} is being recorded` : 'No agent is recording now';
  return who + formatAge(part);
}

function describeMissing({ body, ...part }: Refreshed<{ coverage: ReceivedCoverage }>): string {
  if (!body) return 'it is not known what is missing';
  const { complete, lost } = body.coverage;
  if (complete) return `nothing is known to be missing${formatAge(part)}`;
  return `${lost > 0 ? 'at least ' : ''}${describeLosses(body.coverage)}${formatAge(part)}`;
}

function formatAge({ at, isOld }: Omit<Refreshed<unknown>, 'body'>): string {
  return isOld ? ` (as of ${at} UTC)` : '';
}

/* Shows the cost of the daemon's agent, and how close the agent came to losing events. */

function AgentCost({ metrics }: { metrics: string }) {
  const cost = computeAgentCost(metrics, Date.now());
  if (!cost) return null;
  const rows: [string, string][] = [
    ['CPU since its start', `${percentText(cost.cpu)} of one`],
    ['Memory', formatBytes(cost.memoryBytes)],
  ];
  if (cost.ringPeak !== null)
    rows.push(['Event ring in the last minute', `${percentText(cost.ringPeak)} full at most`]);
  if (cost.recordedCount !== null) rows.push(['Events recorded', groupDigits(cost.recordedCount)]);
  return (
    <section class="panel">
      <h2>Cost of the agent</h2>
      <dl class="legend">
        {rows.map(([name, text]) => (
          <div class="pair" key={name}>
            <dt class="quiet">{name}</dt>
            <dd class="digits">{text}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

/* Shows the nodes of a fleet, and the time up to which the events of each node have arrived. */

/**
 * Maximum number of nodes that are shown, because a fleet may have thousands; the nodes that are furthest behind come
 * first.
 */
const NODES_MAX = 200;

/** Describes how many nodes ship their events, as the beginning of a sentence. */
function describeNodes({ current, silent, ended }: NonNullable<Readiness['fleet']>['nodes']): string {
  const first =
    current === 0 ? 'No node ships now' : `${formatQuantity(current, 'node')} ${current === 1 ? 'ships' : 'ship'} now`;
  const others = [
    silent > 0 ? `${formatQuantity(silent, 'node')} ${silent === 1 ? 'is' : 'are'} silent` : '',
    ended > 0 ? `${formatQuantity(ended, 'node')} ${ended === 1 ? 'has' : 'have'} ended` : '',
  ];
  return [first, ...others].filter(Boolean).join(', ');
}

function Nodes({ coverage: { nodes: known } }: { coverage: ReceivedCoverage }) {
  const behind = known.toSorted((a, b) => (BigInt(a.recorded_until) < BigInt(b.recorded_until) ? -1 : 1));
  return (
    <section class="panel">
      <h2>Nodes</h2>
      <div class="wide">
        <Table headings={['Node', 'Arrived until (UTC)']}>
          {behind.slice(0, NODES_MAX).map(({ node, recorded_until }) => (
            <tr key={node}>
              <th scope="row">{formatName(node)}</th>
              <td class="digits">{formatWallClock(BigInt(recorded_until))}</td>
            </tr>
          ))}
        </Table>
      </div>
      {known.length > NODES_MAX && (
        <p class="quiet">{formatQuantity(known.length - NODES_MAX, 'node')} more are less far behind.</p>
      )}
    </section>
  );
}

/* Shows the transactions that are pinned against retention. */

interface Props {
  pins: readonly ListedPin[];
  mayUnpin: boolean;
  onUnpinned: () => void;
}

function Pins({ pins, mayUnpin, onUnpinned }: Props) {
  const { daemon, go } = usePage();
  const [failure, setFailure] = useState<Failure | null>(null);
  if (pins.length === 0) return null;
  const unpin = async (transactionId: string) => {
    try {
      await daemon.askJson(`/api/transactions/${encodeURIComponent(transactionId)}/pin`, { method: 'DELETE' });
      setFailure(null);
      onUnpinned();
    } catch (error) {
      setFailure(toFailure(error));
    }
  };
  return (
    <section class="panel">
      <h2>Pinned transactions</h2>
      {failure && <FailureNote failure={failure} />}
      <div class="wide">
        <Table headings={['Transaction', 'Node', 'Kept from (UTC)', 'Pinned', ['Actions', 'spoken']]}>
          {pins.map(({ transaction_id, node, from, pinned_at }) => (
            <tr key={`${node} ${transaction_id}`}>
              <th scope="row">
                <button
                  type="button"
                  class="link"
                  onClick={() => go({ view: 'lanes', transaction: transaction_id, session: null, event: null })}
                >
                  {formatName(transaction_id)}
                </button>
              </th>
              <td>{formatName(node)}</td>
              <td class="digits">{formatWallClock(BigInt(from))}</td>
              <td>{pinned_at}</td>
              <td>
                <button type="button" disabled={!mayUnpin} onClick={() => unpin(transaction_id)}>
                  Unpin
                </button>
              </td>
            </tr>
          ))}
        </Table>
      </div>
    </section>
  );
}

/* Shows the recordings that the daemon serves, and the agent of each recording. */

const MEANING: Readonly<Record<string, string>> = {
  recording: 'is recording',
  failing: 'runs, and cannot write: see its log',
  stopped: 'has ended',
  killed: 'was killed: it did not end by itself',
  silent: 'runs, and writes nothing',
  none: 'no agent ever wrote this recording',
};

function Recordings({ readiness: { recordings, unreadable } }: { readiness: Readiness }) {
  return (
    <section class="panel">
      <h2>Recordings</h2>
      <div class="wide">
        <Table headings={['Node', 'Agent', 'Alive until', 'From', 'State']}>
          {recordings.map(({ recording_id, node, agent, source, damaged }) => (
            <tr key={recording_id}>
              <th scope="row">{formatName(node)}</th>
              <td>{MEANING[agent.state] ?? agent.state}</td>
              <td>{agent.alive_at ?? '–'}</td>
              <td>{source}</td>
              <td>{damaged ? '✕ parts of it cannot be read' : 'readable'}</td>
            </tr>
          ))}
        </Table>
      </div>
      {unreadable.map(({ file, reason }) => (
        <p class="failure" key={file}>
          {file} cannot be read, and the others are served without it: {reason}
        </p>
      ))}
    </section>
  );
}

/* Shows the daemon's replay sessions; each has buttons to open and to delete it. */

interface SessionsProps {
  sessions: ReceivedSession[];
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
        <Table headings={['Transaction', 'State', 'Event', 'Speed', ['Actions', 'spoken']]}>
          {sessions.map(({ session_id, transaction_id, state, event_index, event_count, speed_factor }) => (
            <tr key={session_id}>
              <th scope="row">
                <button
                  type="button"
                  class="link"
                  onClick={() => go({ view: 'lanes', transaction: transaction_id, session: session_id })}
                >
                  {formatName(transaction_id)}
                </button>
              </th>
              <td>{state}</td>
              <td>
                {groupDigits(event_index)} of {groupDigits(event_count)}
              </td>
              <td>{speed_factor}×</td>
              <td>
                <button type="button" disabled={!mayDelete} onClick={() => remove(session_id)}>
                  Delete
                </button>
              </td>
            </tr>
          ))}
        </Table>
      </div>
    </section>
  );
}

/* Keeps an answer, and requests it again a few seconds after the previous answer, however long a request takes. */

interface Refreshed<Body> {
  /** The newest answer that has arrived, even if it is old. */
  body: Body | null;
  /** Time of day (UTC) on the page's clock when the answer arrived. */
  at: string | null;
  /** Whether the next answer has failed or is late. */
  isOld: boolean;
  failure: Failure | null;
  askAgain: () => void;
}

const REFRESH_MS = 5000;

function useRefreshed<Body>(ask: (signal: AbortSignal) => Promise<Body>): Refreshed<Body> {
  const [round, setRound] = useState(0);
  const [isLate, setIsLate] = useState(false);
  const { body, failure, isLoading, askAgain } = useAnswer(`${round}`, async (signal) => ({
    body: await ask(signal),
    at: new Date().toISOString().slice(11, 19),
  }));
  useEffect(() => {
    setIsLate(false);
    const timer = setInterval(() => {
      if (isLoading) setIsLate(true);
      else if (!document.hidden) setRound((last) => last + 1);
    }, REFRESH_MS);
    return () => clearInterval(timer);
  }, [isLoading]);
  return { ...(body ?? { body: null, at: null }), failure, isOld: failure !== null || isLate, askAgain };
}
