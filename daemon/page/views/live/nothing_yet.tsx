/** Explains why no event arrives and what to do: a filter may exclude all events, or nothing may be recorded. */
import type { Readiness, ReceivedCoverage } from '../../../contract/received.ts';
import { formatQuantity } from '../../../model/wording/amounts.ts';
import { formatName } from '../../../model/wording/names.ts';
import { dropFilters, dropFilterValue, listFilters } from '../../link/filters.ts';
import { EMPTY_LINK, type Link } from '../../link/link.ts';
import { usePage } from '../context.ts';
import { FailureNote } from '../failure_note.tsx';
import { useAnswer } from '../use_answer.ts';
import { buildLiveParameters } from './use_tail.ts';

/**
 * Maximum number of filters that are tested. For each filter, a request counts the last minute's events without this
 * filter.
 */
const TERMS_MAX = 6;
const WINDOW = '-1m';

interface Term {
  text: string;
  without: Partial<Link>;
}

interface TermCounts {
  isFleet: boolean;
  isRecording: boolean;
  terms: (Term & { count: number })[];
}

export function NothingYet() {
  const { daemon, link, go } = usePage();
  const terms = listTerms(link);
  const { body, failure, askAgain } = useAnswer<TermCounts>(buildLiveParameters(link).toString(), async (signal) => {
    const count = async (term: Term) => {
      const parameters = buildLiveParameters({ ...link, ...term.without });
      parameters.set('from', WINDOW);
      const answer = await daemon.askJson<{ total: { count: number }; coverage: ReceivedCoverage }>(
        `/api/stats?${parameters}`,
        {
          signal,
        },
      );
      return { ...term, count: answer.total.count };
    };
    const [{ recordings, fleet }, counts] = await Promise.all([
      daemon.askJson<Readiness>('/readyz', { signal }),
      Promise.all(terms.slice(0, TERMS_MAX).map(count)),
    ]);
    const isRecording = fleet ? fleet.nodes.current > 0 : recordings.some(({ agent }) => agent.state === 'recording');
    return { isFleet: fleet !== null, isRecording, terms: counts };
  });
  return (
    <section class="panel">
      {failure && <FailureNote failure={failure} onRetry={askAgain} />}
      {body?.isFleet && !body.isRecording && (
        <p>
          No node ships now: look at <code>kreplay ship</code> on the nodes, and at their ways to the fleet; Health says
          how far each has come.
        </p>
      )}
      {body?.isFleet && body.isRecording && terms.length === 0 && (
        <p>Nodes ship, and nothing has arrived yet: what they record takes some seconds.</p>
      )}
      {body && !body.isFleet && !body.isRecording && (
        <p>
          No agent is recording now. <code>kreplay up</code> starts one with a daemon, <code>kreplay agent</code> one
          for this daemon's folder; Health says what the last one did.
        </p>
      )}
      {body?.isRecording && !body.isFleet && terms.length === 0 && (
        <p>
          An agent is recording, and nothing that it records has happened yet: it records calls such as{' '}
          <code>write</code> and <code>fsync</code>, and requests to disks.
        </p>
      )}
      {body?.terms.map(({ text, without, count }) => (
        <p key={text}>
          Without <strong>{text}</strong> {formatQuantity(count, 'event')} of the last minute{' '}
          {count === 1 ? 'matches' : 'match'}.{' '}
          <button type="button" onClick={() => go(without)}>
            Drop it
          </button>
        </p>
      ))}
      {terms.length > 1 && (
        <button type="button" onClick={() => go(dropFilters())}>
          Drop all
        </button>
      )}
    </section>
  );
}

function listTerms(link: Link): Term[] {
  const terms = listFilters(link).map(({ name, value }) => ({
    text: `${name} ${formatName(value)}`,
    without: dropFilterValue(link, name, value),
  }));
  if (link.has_error !== EMPTY_LINK.has_error) terms.push({ text: 'failed', without: { has_error: false } });
  return terms;
}
