/** Which host records, what is missing and why, and the sessions that are open. */
import { useEffect } from 'preact/hooks';
import type { Coverage, Readiness, Session } from '../../feed/answers.ts';
import { counted } from '../../numbers/amounts.ts';
import { usePage } from '../context.ts';
import { FailureNote } from '../failure_note.tsx';
import { shownName } from '../names.ts';
import { AgentCost } from './agent_cost.tsx';
import { Gaps } from './gaps.tsx';
import { Nodes, nodesText } from './nodes.tsx';
import { type Pin, Pins } from './pins.tsx';
import { Recordings } from './recordings.tsx';
import { Sessions } from './sessions.tsx';
import { type Refreshed, useRefreshed } from './use_refreshed.ts';

/** Each part is asked for alone: one that fails or takes long leaves the others as they are. */
export function Health() {
  const { daemon, setCoverage, access } = usePage();
  const usePart = <Body,>(path: string) => useRefreshed((signal) => daemon.askJson<Body>(path, { signal }));
  const readiness = usePart<Readiness>('/readyz');
  const newest = usePart<{ coverage: Coverage }>('/api/events?limit=1&order=desc');
  const sessions = usePart<{ sessions: Session[] }>('/api/replay/sessions?limit=1000');
  const pins = usePart<{ pins: Pin[] }>('/api/pins');
  // The daemon's metrics, in Prometheus' text.
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
          {recordedText(readiness)}; {missingText(newest)}.
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
      {coverage && <Gaps coverage={coverage} />}
      {metrics.body !== null && <AgentCost metrics={metrics.body} />}
      {sessions.body && (
        <Sessions sessions={sessions.body.sessions} mayDelete={mayChange} onDeleted={sessions.askAgain} />
      )}
      {pins.body && <Pins pins={pins.body.pins} mayUnpin={mayChange} onUnpinned={pins.askAgain} />}
    </main>
  );
}

/** What failed, once for all parts, and which parts are old or not known by it. */
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

/** Whether something can be said: that it is not known, if it does not come. */
function isKnown({ body, isOld }: Refreshed<unknown>): boolean {
  return body !== null || isOld;
}

function recordedText({ body, ...part }: Refreshed<Readiness>): string {
  if (!body) return 'It is not known what is being recorded';
  if (body.fleet) return nodesText(body.fleet.nodes) + ageText(part);
  const recording = body.recordings
    .filter(({ agent }) => agent.state === 'recording')
    .map(({ node }) => shownName(node));
  const who = recording.length > 0 ? `${recording.join(', ')} is being recorded` : 'No agent is recording now';
  return who + ageText(part);
}

function missingText({ body, ...part }: Refreshed<{ coverage: Coverage }>): string {
  if (!body) return 'it is not known what is missing';
  const { complete, lost, gaps } = body.coverage;
  if (complete) return `nothing is known to be missing${ageText(part)}`;
  const count =
    lost > 0
      ? `at least ${counted(lost, 'event')} ${lost === 1 ? 'is' : 'are'} missing`
      : 'events are missing, uncounted';
  return `${count}, in ${gaps.length} ${gaps.length === 1 ? 'gap' : 'gaps'}${ageText(part)}`;
}

function ageText({ at, isOld }: Omit<Refreshed<unknown>, 'body'>): string {
  return isOld ? ` (as of ${at} UTC)` : '';
}
