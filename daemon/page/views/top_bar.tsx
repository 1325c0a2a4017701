/** Shows the name, the views, which events of the recording are missing, and the settings of the page. */

import { useEffect, useRef, useState } from 'preact/hooks';
import type { ReceivedCoverage } from '../../contract/received.ts';
import { formatName } from '../../model/wording/names.ts';
import { type Failure, toFailure } from '../api/failure.ts';
import { buildCommand } from '../link/command.ts';
import { buildViewChange, type ViewName } from '../link/link.ts';
import { describeLosses } from '../losses/wording.ts';
import { usePage } from './context.ts';
import { FailureNote } from './failure_note.tsx';
import { useKeys } from './keys.ts';
import { applyTheme, chooseNextTheme } from './theme.ts';
import { keepSession } from './use_replay.ts';

const TITLES: readonly (readonly [view: ViewName, title: string])[] = [
  ['overview', 'Overview'],
  ['live', 'Live'],
  ['compare', 'Compare'],
  ['health', 'Health'],
];

interface Props {
  coverage: ReceivedCoverage | null;
  /** Sentence about what the view shows; null before the view has a sentence. */
  sentence: string | null;
  onHelp: () => void;
}

export function TopBar({ coverage, sentence, onHelp }: Props) {
  const { link, go } = usePage();
  const { view, transaction, trace } = link;
  // In the browser's tabs and history, only the title distinguishes the views.
  useEffect(() => {
    const shown = transaction === null ? `Trace ${trace}` : formatName(transaction);
    const title = view === 'lanes' ? (sentence ?? shown) : TITLES.find(([name]) => name === view)![1];
    document.title = `${title} · kreplay`;
  }, [view, transaction, trace, sentence]);
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
            onClick={() => go(buildViewChange(view))}
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
      <button type="button" onClick={() => applyTheme(chooseNextTheme())} aria-keyshortcuts="T" title="light or dark">
        ◐<span class="spoken">light or dark</span>
      </button>
      <button type="button" onClick={onHelp} title="keys and help">
        ?<span class="spoken">keys and help</span>
      </button>
    </header>
  );
}

/** Describes losses in words, because missing events may make every other number on the page too small. */
function CoveragePill({ coverage }: { coverage: ReceivedCoverage }) {
  const { go } = usePage();
  if (coverage.complete) return <span class="pill">✓ nothing is known to be missing</span>;
  return (
    <button type="button" class="pill lossy" onClick={() => go(buildViewChange('health'))}>
      ▲ {describeLosses(coverage)}
    </button>
  );
}

/* Shares the shown view as a link, a command for a shell, or text, and pins the transaction against retention. */

/** Maximum number of table rows that are copied as text. */
const ROWS_MAX = 1000;

function Share() {
  const { link, announce, access, daemon } = usePage();
  const [failure, setFailure] = useState<Failure | null>(null);
  const menu = useRef<HTMLDetailsElement>(null);
  const finish = (sentence: string) => {
    menu.current!.open = false;
    announce(sentence);
  };
  const copy = async (text: string, what: string) => {
    try {
      await navigator.clipboard.writeText(text);
      finish(`The ${what} is copied.`);
    } catch {
      setFailure(toFailure(new Error(`the browser does not let a page at this address copy: ${text}`)));
    }
  };
  const copyLink = () => {
    // Another person may watch the replay after this page is closed, so the session is not deleted.
    if (link.session !== null) keepSession(link.session);
    return copy(location.href, 'link');
  };
  const pin = async () => {
    setFailure(null);
    try {
      await daemon.askJson(`/api/transactions/${encodeURIComponent(link.transaction!)}/pin`, {
        method: 'POST',
        body: {},
      });
      finish('The transaction is pinned: retention keeps it.');
    } catch (error) {
      setFailure(toFailure(error));
    }
  };
  useKeys((key) => {
    if (key === 'Y') void copyLink();
    return key === 'Y';
  });
  const mayPin = access.scopes.includes('replay:control');
  return (
    <>
      <button type="button" class="end" onClick={copyLink} aria-keyshortcuts="Y">
        Copy link
      </button>
      <details class="menu" ref={menu}>
        <summary>Share</summary>
        <div class="panel">
          <button
            type="button"
            onClick={() => copy(buildCommand(link, (location.origin + location.pathname).slice(0, -1)), 'command')}
          >
            Copy command
          </button>
          <button type="button" onClick={() => copy(collectShownText(), 'text')}>
            Copy text
          </button>
          {link.view === 'lanes' && link.transaction !== null && (
            <button
              type="button"
              disabled={!mayPin}
              onClick={pin}
              title={mayPin ? 'keep it from retention' : 'this needs a token with the scope replay:control'}
            >
              Pin transaction
            </button>
          )}
          {failure && <FailureNote failure={failure} />}
        </div>
      </details>
    </>
  );
}

/** Collects the sentence, the note of missing events, and the rows of the tables; cells are separated by tabs. */
function collectShownText(): string {
  // No-break spaces become plain ones, too.
  const readText = ({ innerText }: HTMLElement) => innerText.replace(/\s+/g, ' ');
  const words = [...document.querySelectorAll<HTMLElement>('main h1, main .loss')].map(readText);
  const rows = [...document.querySelectorAll<HTMLTableRowElement>('main tr')].slice(0, ROWS_MAX);
  const cells = rows.map((row) => [...row.cells].map(readText).join('\t'));
  return [...words, ...cells, location.href].join('\n');
}
