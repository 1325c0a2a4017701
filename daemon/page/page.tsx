/** The web page: it asks for a token if the daemon requires one, and shows the view that the page's address names. */

import { render } from 'preact';
import { useCallback, useEffect, useErrorBoundary, useMemo, useState } from 'preact/hooks';
import type { Access, ReceivedCoverage } from '../contract/received.ts';
import { escapeHidden } from '../model/wording/names.ts';
import { createTokenKeeper } from './access/token.ts';
import { createDaemon } from './api/daemon.ts';
import { type Failure, toFailure } from './api/failure.ts';
import { createAddress } from './link/address.ts';
import { applyChange, buildViewChange, formatProblems, type Link, type ViewName } from './link/link.ts';
import { keepRenderedUnits } from './numbers/kept_units.ts';
import { Compare } from './views/compare/compare.tsx';
import { type PageContext, PageState } from './views/context.ts';
import { FailureNote } from './views/failure_note.tsx';
import { Health } from './views/health/health.tsx';
import { HelpDialog } from './views/help.tsx';
import { useKeys } from './views/keys.ts';
import { LanesView } from './views/lanes_view.tsx';
import { Live } from './views/live/live.tsx';
import { Overview } from './views/overview/overview.tsx';
import { PrintNote } from './views/print_note.tsx';
import { applyTheme, chooseNextTheme } from './views/theme.ts';
import { TokenForm } from './views/token_form.tsx';
import { TopBar } from './views/top_bar.tsx';
import { TraceView } from './views/trace_view.tsx';
import { useRetry } from './views/use_retry.ts';

const tokens = createTokenKeeper();
const address = createAddress();

const VIEW_OF_KEY: ReadonlyMap<string, ViewName> = new Map([
  ['1', 'overview'],
  ['2', 'live'],
  ['3', 'compare'],
  ['4', 'health'],
]);

/** Codes of failures that a token can fix. */
const TOKEN_CODES = ['unauthorized', 'too_many_attempts'];

type PageEntry = { access: Access } | { failure: Failure | null; isTokenNeeded: boolean };

function App() {
  const [parsed, setParsed] = useState(address.read);
  const [entry, setEntry] = useState<PageEntry | null>(null);
  const [coverage, setCoverage] = useState<ReceivedCoverage | null>(null);
  const [sentence, setSentence] = useState<string | null>(null);
  const [isHelpOpen, setIsHelpOpen] = useState(false);
  const [spoken, announce] = useState('');
  const daemon = useMemo(() => createDaemon(tokens, () => setEntry((now) => now && refuseEntry(now))), []);

  const enter = useCallback(async () => {
    try {
      setEntry({ access: await daemon.askJson<Access>('/api/access') });
    } catch (error) {
      const failure = toFailure(error);
      setEntry({ failure, isTokenNeeded: TOKEN_CODES.includes(failure.code) });
    }
  }, [daemon]);

  useRetry({ failure: entry && 'failure' in entry ? entry.failure : null, isLoading: false }, enter);

  useEffect(() => {
    const begin = async () => {
      if (tokens.get() === null) await tokens.askOthers();
      const hadToken = tokens.get() !== null;
      await enter();
      // A tab without a stored token shows the form without an error message, because the user made no mistake.
      if (!hadToken) setEntry((now) => (now && isTokenMissing(now) ? { ...now, failure: null } : now));
    };
    void begin();
    return address.onMove(setParsed);
  }, [enter]);

  const go = useCallback((change: Partial<Link>, isNewEntry?: boolean) => {
    setParsed(({ link }) => {
      const changed = applyChange(link, change);
      address.write(changed.link, isNewEntry ?? changed.isOther);
      return { link: changed.link, problems: [] };
    });
  }, []);

  useKeys((key) => {
    const view = VIEW_OF_KEY.get(key);
    if (view) go(buildViewChange(view));
    else if (key === 'T') applyTheme(chooseNextTheme());
    else if (key === '?') setIsHelpOpen(true);
    else return false;
    return true;
  });

  if (!entry) return <main class="panel narrow quiet">Asking the daemon…</main>;
  if (!('access' in entry)) {
    if (!entry.isTokenNeeded)
      return (
        <main class="panel narrow">
          <h1>The daemon cannot be used</h1>
          <FailureNote failure={entry.failure!} onRetry={enter} />
        </main>
      );
    const onToken = (token: string) => {
      tokens.set(token);
      void enter();
    };
    return <TokenForm failure={entry.failure} onToken={onToken} />;
  }
  const context: PageContext = {
    daemon,
    link: parsed.link,
    go,
    access: entry.access,
    announce,
    setCoverage,
    setSentence,
  };
  return (
    <PageState.Provider value={context}>
      <TopBar {...{ coverage, sentence }} onHelp={() => setIsHelpOpen(true)} />
      {parsed.problems.length > 0 && (
        <p role="alert" class="failure">
          Parts of the link were not understood, and the rest was applied.
          {escapeHidden(formatProblems(parsed.problems))}.
        </p>
      )}
      <View link={parsed.link} />
      <PrintNote link={parsed.link} coverage={coverage} />
      {isHelpOpen && <HelpDialog onClose={() => setIsHelpOpen(false)} />}
      <p class="spoken" aria-live="polite">
        {spoken}
      </p>
    </PageState.Provider>
  );
}

/** Shows the named view, or the error that the page's own code threw: a blank page would look like an empty answer. */
function View({ link: { view: name, transaction, trace } }: { link: Link }) {
  const [error, reset] = useErrorBoundary();
  if (error)
    return (
      <main class="panel narrow">
        <h1>The page has a fault</h1>
        <p class="failure" role="alert">
          {String(error)}
        </p>
        <button type="button" onClick={reset}>
          Show it again
        </button>
      </main>
    );
  if (name === 'lanes' && transaction !== null) return <LanesView key={transaction} transactionId={transaction} />;
  if (name === 'lanes' && trace !== null) return <TraceView key={trace} traceId={trace} />;
  if (name === 'live') return <Live />;
  if (name === 'compare') return <Compare />;
  return name === 'health' ? <Health /> : <Overview />;
}

const isTokenMissing = (entry: PageEntry): entry is { failure: Failure | null; isTokenNeeded: boolean } =>
  'isTokenNeeded' in entry && entry.isTokenNeeded;

/**
 * Returns an entry that asks for a new token, because the last token expired or was revoked. An entry that already has
 * a failure keeps it, because several requests may fail with the same token.
 */
function refuseEntry(entry: PageEntry): PageEntry {
  if (!('access' in entry)) return { ...entry, isTokenNeeded: true };
  const detail = 'the token has expired or was revoked';
  const failure = { code: 'unauthorized', status: 401, detail, requestId: null, retryAfter_s: null };
  return { failure, isTokenNeeded: true };
}

applyTheme();
keepRenderedUnits();
render(<App />, document.getElementById('page')!);
