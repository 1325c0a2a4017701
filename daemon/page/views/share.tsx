/** Takes what is shown elsewhere: as a link, a command for a shell, text; and keeps the transaction from retention. */
import { useRef, useState } from 'preact/hooks';
import { asFailure, type Failure } from '../feed/failure.ts';
import { commandFor } from '../link/command.ts';
import { usePage } from './context.ts';
import { FailureNote } from './failure_note.tsx';
import { useKeys } from './keys.ts';
import { keepSession } from './use_replay.ts';

/** Rows of tables that are copied as text. */
const ROWS_MAX = 1000;

export function Share() {
  const { link, announce, access, daemon } = usePage();
  const [failure, setFailure] = useState<Failure | null>(null);
  const menu = useRef<HTMLDetailsElement>(null);
  const done = (sentence: string) => {
    menu.current!.open = false;
    announce(sentence);
  };
  const copy = async (text: string, what: string) => {
    try {
      await navigator.clipboard.writeText(text);
      done(`The ${what} is copied.`);
    } catch {
      setFailure(asFailure(new Error(`the browser does not let a page at this address copy: ${text}`)));
    }
  };
  const copyLink = () => {
    // Another person may watch the replay, also when this page is closed.
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
      done('The transaction is pinned: retention keeps it.');
    } catch (error) {
      setFailure(asFailure(error));
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
            onClick={() => copy(commandFor(link, (location.origin + location.pathname).slice(0, -1)), 'command')}
          >
            Copy command
          </button>
          <button type="button" onClick={() => copy(shownText(), 'text')}>
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

/** The sentence, what is missing, and the rows of the tables, which are separated by tabs. */
function shownText(): string {
  const words = [...document.querySelectorAll<HTMLElement>('main h1, main .loss')].map(({ innerText }) => innerText);
  const rows = [...document.querySelectorAll<HTMLTableRowElement>('main tr')].slice(0, ROWS_MAX);
  const cells = rows.map((row) => [...row.cells].map(({ innerText }) => innerText.replace(/\s+/g, ' ')).join('\t'));
  return [...words, ...cells, location.href].join('\n');
}
