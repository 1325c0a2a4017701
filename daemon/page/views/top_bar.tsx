/** Name, views, what is missing of the recording, and the page's own settings. */
import { useEffect } from 'preact/hooks';
import type { Coverage } from '../feed/answers.ts';
import type { ViewName } from '../link/link.ts';
import { counted } from '../numbers/amounts.ts';
import { usePage } from './context.ts';
import { onKey } from './keys.ts';
import { applyTheme, nextTheme } from './theme.ts';
import { keepSession } from './use_replay.ts';

const TITLES: readonly (readonly [view: ViewName, title: string])[] = [
  ['overview', 'Overview'],
  ['live', 'Live'],
  ['compare', 'Compare'],
  ['health', 'Health'],
];

interface Props {
  coverage: Coverage | null;
  onHelp: () => void;
}

export function TopBar({ coverage, onHelp }: Props) {
  const { link, go, announce } = usePage();
  const copy = async () => {
    await navigator.clipboard?.writeText(location.href);
    // Another person may watch the replay, also when this page is closed.
    if (link.session !== null) keepSession(link.session);
    announce('The link is copied.');
  };
  useEffect(
    () =>
      onKey((code) => {
        if (code === 'KeyY') void copy();
        return code === 'KeyY';
      }),
    [link],
  );
  return (
    <header class="top">
      <a class="name" href="/">
        kreplay
      </a>
      <nav aria-label="Views">
        {TITLES.map(([view, title]) => (
          <button
            type="button"
            key={view}
            aria-current={link.view === view ? 'page' : undefined}
            onClick={() => go({ view, session: null, event: null })}
          >
            {title}
          </button>
        ))}
        {link.view === 'lanes' && (
          <button type="button" aria-current="page">
            Transaction
          </button>
        )}
      </nav>
      {coverage && <CoveragePill coverage={coverage} />}
      <button type="button" class="end" onClick={copy} aria-keyshortcuts="Y">
        Copy link
      </button>
      <button type="button" onClick={() => applyTheme(nextTheme())} aria-keyshortcuts="T" title="light or dark">
        ◐<span class="spoken">light or dark</span>
      </button>
      <button type="button" onClick={onHelp} title="keys and help">
        ?<span class="spoken">keys and help</span>
      </button>
    </header>
  );
}

/** Loss is said in words, because it may make every other number of the page too small. */
function CoveragePill({ coverage: { complete, lost, gaps } }: { coverage: Coverage }) {
  const { go } = usePage();
  if (complete) return <span class="pill">✓ nothing is known to be missing</span>;
  const gapsText = `${gaps.length} ${gaps.length === 1 ? 'gap' : 'gaps'}`;
  const lostText = lost > 0 ? `${counted(lost, 'event')} lost` : 'events are missing, nobody could count them';
  return (
    <button type="button" class="pill lossy" onClick={() => go({ view: 'health' })}>
      ▲ {lostText} in {gapsText}
    </button>
  );
}
