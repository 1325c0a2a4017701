/** Which host records, what is missing and why, and the sessions that are open. */
import { useEffect, useState } from 'preact/hooks';
import type { Coverage, Readiness, Session } from '../../feed/answers.ts';
import { counted } from '../../numbers/amounts.ts';
import { usePage } from '../context.ts';
import { FailureNote } from '../failure_note.tsx';
import { useAnswer } from '../use_answer.ts';
import { AgentCost } from './agent_cost.tsx';
import { Gaps } from './gaps.tsx';
import { type Pin, Pins } from './pins.tsx';
import { Recordings } from './recordings.tsx';
import { Sessions } from './sessions.tsx';

interface Shown {
  readiness: Readiness;
  coverage: Coverage;
  sessions: Session[];
  pins: Pin[];
  /** The daemon's metrics, in Prometheus' text. */
  metrics: string;
}

const REFRESH_MS = 5000;

export function Health() {
  const { daemon, setCoverage, access } = usePage();
  const [round, setRound] = useState(0);
  const answer = useAnswer<Shown>(`health ${round}`, async (signal) => {
    const [readiness, { coverage }, { sessions }, { pins }, metrics] = await Promise.all([
      daemon.askJson<Readiness>('/readyz', { signal }),
      daemon.askJson<{ coverage: Coverage }>('/api/events?limit=1&order=desc', { signal }),
      daemon.askJson<{ sessions: Session[] }>('/api/replay/sessions?limit=1000', { signal }),
      daemon.askJson<{ pins: Pin[] }>('/api/pins', { signal }),
      daemon.ask('/metrics', { signal, headers: { Accept: 'text/plain' } }).then((answered) => answered.text()),
    ]);
    return { readiness, coverage, sessions, pins, metrics };
  });
  useEffect(() => setCoverage(answer.body?.coverage ?? null), [answer.body]);
  useEffect(() => {
    const timer = setInterval(() => document.hidden || setRound((last) => last + 1), REFRESH_MS);
    return () => clearInterval(timer);
  }, []);
  const { body, failure, askAgain } = answer;
  const mayChange = access.scopes.includes('replay:control');
  return (
    <main>
      {failure && <FailureNote failure={failure} onRetry={askAgain} />}
      {body && (
        <>
          <h1>{sentenceOf(body)}</h1>
          <Recordings readiness={body.readiness} />
          <Gaps coverage={body.coverage} />
          <AgentCost metrics={body.metrics} />
          <Sessions sessions={body.sessions} mayDelete={mayChange} onDeleted={askAgain} />
          <Pins pins={body.pins} mayUnpin={mayChange} onUnpinned={askAgain} />
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
