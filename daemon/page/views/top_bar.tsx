/** Name, views, what is missing of the recording, and the page's own settings. */
import { useEffect } from 'preact/hooks';
import type { Coverage } from '../feed/answers.ts';
import { inView, type ViewName } from '../link/link.ts';
import { counted } from '../numbers/amounts.ts';
import { usePage } from './context.ts';
import { shownName } from './names.ts';
import { Share } from './share.tsx';
import { applyTheme, nextTheme } from './theme.ts';

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
  const { link, go } = usePage();
  const { view, transaction, trace } = link;
  // Tabs and the history of a browser have nothing else to tell views apart.
  useEffect(() => {
    const shown = transaction === null ? `Trace ${trace}` : shownName(transaction);
    document.title = `${view === 'lanes' ? shown : TITLES.find(([name]) => name === view)![1]} · kreplay`;
  }, [view, transaction, trace]);
  return (
    <header class="top">
      <a class="name" href=".">
        kreplay
      </a>
      <nav aria-label="Views">
        {TITLES.map(([view, title]) => (
          <button
            type="button"
            key={view}
            aria-current={link.view === view ? 'page' : undefined}
            onClick={() => go(inView(view))}
          >
            {title}
          </button>
        ))}
        {link.view === 'lanes' && (
          <button type="button" aria-current="page">
            {link.transaction === null ? 'Trace' : 'Transaction'}
          </button>
        )}
      </nav>
      {coverage && <CoveragePill coverage={coverage} />}
      <Share />
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
    <button type="button" class="pill lossy" onClick={() => go(inView('health'))}>
      ▲ {lostText} in {gapsText}
    </button>
  );
}
