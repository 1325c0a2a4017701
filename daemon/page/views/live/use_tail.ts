/** Opens the live events for a view, with the filters of the link. */
import { useEffect, useState } from 'preact/hooks';
import { filterParameters } from '../../link/filters.ts';
import type { Link } from '../../link/link.ts';
import { type LiveTail, openTail } from '../../live/tail.ts';
import { usePage } from '../context.ts';

/** Interval at which the rows and texts are renewed; faster changes could not be read. */
const RENEW_MS = 250;

/** Builds the filters in the form that `GET /api/events` takes. */
export function buildLiveParameters(link: Link): URLSearchParams {
  const parameters = filterParameters(link);
  if (link.has_error) parameters.set('failed', 'true');
  return parameters;
}

/** Opens the live events with the link's filters; null until the stream is opened. */
export function useTail(): LiveTail | null {
  const { daemon, link } = usePage();
  const [tail, setTail] = useState<LiveTail | null>(null);
  const [, renew] = useState(0);
  const filters = buildLiveParameters(link).toString();
  useEffect(() => {
    let hasChanged = true;
    const opened = openTail({
      daemon,
      filters: new URLSearchParams(filters),
      onChange() {
        hasChanged = true;
      },
    });
    setTail(opened);
    let roundCount = 0;
    const timer = setInterval(() => {
      // Rates and times change even if no event arrives, so they are renewed at every fourth interval.
      if (document.hidden || (!hasChanged && ++roundCount % 4 > 0)) return;
      hasChanged = false;
      renew((last) => last + 1);
    }, RENEW_MS);
    return () => {
      clearInterval(timer);
      opened.close();
    };
  }, [daemon, filters]);
  return tail;
}
