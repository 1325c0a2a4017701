/** The live events that a view shows, with the filters of the link. */
import { useEffect, useState } from 'preact/hooks';
import { filterParameters } from '../../link/filters.ts';
import type { Link } from '../../link/link.ts';
import { openTail, type Tail } from '../../live/tail.ts';
import { usePage } from '../context.ts';

/** Interval at which the rows and the words are renewed, because people do not read faster. */
const RENEW_MS = 250;

/** The filters as `GET /api/events` takes them. */
export function buildLiveParameters(link: Link): URLSearchParams {
  const parameters = filterParameters(link);
  if (link.has_error) parameters.set('failed', 'true');
  return parameters;
}

/** Null until the stream is asked for. */
export function useTail(): Tail | null {
  const { daemon, link } = usePage();
  const [tail, setTail] = useState<Tail | null>(null);
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
      // Rates and times change when nothing arrives, too, so they are renewed every fourth time.
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
