/** Shows the live recording: how much is recorded, the last minute as a map, and the newest events. */
import { useEffect, useRef, useState } from 'preact/hooks';
import { formatQuantity, formatRate } from '../../../model/wording/amounts.ts';
import { formatShortDuration, groupDigits } from '../../../model/wording/exact_times.ts';
import { formatName } from '../../../model/wording/names.ts';
import { NEWEST_MAX, type NewestRow } from '../../live/newest.ts';
import { buildRowTexts, LIVE_HEADINGS, type RowTexts } from '../../live/row_cells.ts';
import { type Second, sumSeconds } from '../../live/seconds.ts';
import { advanceMinute, type LiveTail } from '../../live/tail.ts';
import { formatWallClock } from '../../numbers/wall_clock.ts';
import { usePage } from '../context.ts';
import { FailureNote } from '../failure_note.tsx';
import { useKeys } from '../keys.ts';
import { ScrolledRows } from '../scrolled_rows.tsx';
import { TransactionLink } from '../transaction_link.tsx';
import { WindowForm } from '../window_form.tsx';
import { MinuteMap } from './minute_map.tsx';
import { NothingYet } from './nothing_yet.tsx';
import { useTail } from './use_tail.ts';

/** Shortest delay that is shown; a shorter delay is the normal time that an event takes to reach the page. */
const BEHIND_MS_MIN = 2000;

export function Live() {
  const { link, setCoverage } = usePage();
  const tail = useTail();
  useEffect(() => setCoverage(null), [setCoverage]);
  return (
    <main>
      <WindowForm />
      {(link.from !== null || link.to !== null) && (
        <p class="quiet">The window does not apply here: Live shows what is recorded from now on.</p>
      )}
      {tail && <Followed tail={tail} />}
    </main>
  );
}

function Followed({ tail }: { tail: LiveTail }) {
  const { link, go, announce } = usePage();
  const { state, failure } = tail;
  const isPaused = state === 'paused';
  const sentence = describeTail(tail);
  const toggle = () => {
    if (tail.state === 'refused') return;
    if (tail.state === 'paused') tail.resume();
    else tail.pause();
    announce(tail.state === 'paused' ? 'Paused.' : 'Following again.');
  };
  useKeys((key) => {
    if (key === 'Space') toggle();
    else if (key === 'V') go({ table: !link.table }, false);
    else return false;
    return true;
  });
  return (
    <>
      <h1>{sentence}</h1>
      {tail.kept.hasLost && (
        <p class="loss">
          ▲ {tail.kept.lostCount > 0 ? `At least ${formatQuantity(tail.kept.lostCount, 'event')}` : 'Events'}{' '}
          {tail.kept.lostCount === 1 ? 'was' : 'were'} not recorded, or removed before this page read them, while it
          followed.
        </p>
      )}
      {failure && <FailureNote failure={failure} onRetry={tail.resume} />}
      <div class="controls">
        <button type="button" class="primary" onClick={toggle} disabled={state === 'refused'} aria-keyshortcuts="Space">
          {isPaused ? 'Go on' : 'Pause'}
        </button>
        <button
          type="button"
          aria-pressed={link.table}
          aria-keyshortcuts="V"
          onClick={() => go({ table: !link.table }, false)}
        >
          Table
        </button>
        <span class="quiet">{STATES[state]}</span>
        <Behind tail={tail} />
      </div>
      {tail.kept.eventCount === 0 && tail.isFollowing && <NothingYet />}
      <section class="panel">
        <h2>The last minute, by start and duration</h2>
        {link.table ? <SecondsTable tail={tail} /> : <MinuteMap tail={tail} summary={sentence} />}
      </section>
      <NewestTable tail={tail} />
    </>
  );
}

const STATES: Readonly<Record<LiveTail['state'], string>> = {
  connecting: 'connecting',
  following: 'following',
  in_turns: 'following in turns, as other tabs have all four streams',
  cut: 'not connected: what is shown stands still',
  paused: 'paused: the daemon keeps what is recorded meanwhile',
  refused: 'not connected',
};

function Behind({ tail }: { tail: LiveTail }) {
  const behindMs = tail.computeBehindMs(performance.now());
  if (behindMs < BEHIND_MS_MIN || tail.kept.eventCount === 0) return null;
  return (
    <>
      <strong class="behind">{formatShortDuration(Math.round(behindMs / 1000) * 1e9)} behind</strong>
      {tail.state !== 'cut' && tail.state !== 'refused' && (
        <button type="button" onClick={tail.jump}>
          Jump to now
        </button>
      )}
    </>
  );
}

function describeTail(tail: LiveTail): string {
  const { arrivals, eventCount } = tail.kept;
  const minute = advanceMinute(tail);
  if (!minute || !arrivals || eventCount === 0)
    return tail.isFollowing ? 'No event has arrived yet.' : 'No event is here yet.';
  const readMs = tail.readMs(performance.now());
  const second = arrivals.countLastSecond(readMs);
  const mean = arrivals.computeMinuteRate(readMs);
  const when = tail.isFollowing ? '' : `As of ${formatWallClock(arrivals.computeClockNs(readMs)).slice(11, 19)} UTC, `;
  const rate = `${when}${formatQuantity(second, 'event')} came in the last second, ${formatRate(mean)} a second over the minute`;
  const { count, failed, longestNs, isLost } = mergeSeconds(sumSeconds(minute));
  if (count === 0) return `${rate}; none began in it.`;
  const atLeast = isLost ? 'at least ' : '';
  const failures =
    failed > 0 ? `${atLeast}${groupDigits(failed)} failed` : isLost ? 'none recorded failed' : 'none failed';
  return `${rate}: of ${atLeast}${groupDigits(count)} that began in it ${failures}, and the longest took ${formatShortDuration(longestNs!)}.`;
}

function mergeSeconds(seconds: readonly Second[]): Omit<Second, 'startNs'> {
  const longest = seconds.reduce((most, { longestNs }) => Math.max(most, longestNs ?? -1), -1);
  return {
    count: seconds.reduce((sum, { count }) => sum + count, 0),
    failed: seconds.reduce((sum, { failed }) => sum + failed, 0),
    longestNs: longest < 0 ? null : longest,
    isLost: seconds.some(({ isLost }) => isLost),
  };
}

/* Shows the newest events as rows, which do not move while the pointer or the focus is in them. */

const HEADINGS = ['', ...LIVE_HEADINGS].map((name) => ({ name: name || 'Mark' }));
const TRANSACTION = LIVE_HEADINGS.indexOf('Transaction');

function NewestTable({ tail }: { tail: LiveTail }) {
  const [isHeld, setIsHeld] = useState(false);
  const shown = useRef<{ tail: LiveTail; total: number; rows: NewestRow[] }>({ tail, total: 0, rows: [] });
  const texts = useRef(new Map<number, RowTexts>());
  if (shown.current.tail !== tail || (!isHeld && shown.current.total !== tail.kept.newest.total)) {
    shown.current = { tail, total: tail.kept.newest.total, rows: tail.kept.newest.rows() };
    texts.current.clear();
  }
  const { rows, total } = shown.current;
  const getOrCreateTexts = (at: number): RowTexts => {
    const known = texts.current.get(at) ?? buildRowTexts(rows[at]!, formatName);
    texts.current.set(at, known);
    return known;
  };
  const waiting = tail.kept.newest.total - total;
  return (
    <section class="panel">
      <h2>The newest {NEWEST_MAX}</h2>
      <p class="quiet held">
        {waiting > 0
          ? `${formatQuantity(waiting, 'new row')}: the table stands still while the pointer or the focus is in it.`
          : '\u00a0'}
      </p>
      <ScrolledRows
        label="The newest events"
        headings={HEADINGS}
        rowCount={rows.length}
        row={(at) => <Cells texts={getOrCreateTexts(at)} kind={rows[at]!.kind} />}
        rowClass={(at) => (rows[at]!.kind === 'event' ? undefined : rows[at]!.kind)}
        onVisit={setIsHeld}
      />
    </section>
  );
}

function Cells({ texts: { cells, note, transactionId, eventId }, kind }: { texts: RowTexts; kind: NewestRow['kind'] }) {
  if (cells === null)
    return (
      <td colSpan={HEADINGS.length}>
        {kind === 'lost' ? '▲' : '…'} {note}
      </td>
    );
  return (
    <>
      <td>{kind === 'late' ? `◷ ${note}` : ''}</td>
      {cells.map((cell, at) => (
        <td key={LIVE_HEADINGS[at]} class="digits">
          {at === TRANSACTION && transactionId !== null ? (
            <TransactionLink transaction={transactionId} event={eventId} />
          ) : cell === '' ? (
            ''
          ) : (
            formatName(cell)
          )}
        </td>
      ))}
    </>
  );
}

/* Shows the data of the last minute's map as a table, second by second. */

const SECOND_HEADINGS = [
  { name: 'Second (UTC)' },
  ...['Events', 'Failed', 'Longest'].map((name) => ({ name, isNumber: true })),
  { name: 'Recorded' },
];

function SecondsTable({ tail }: { tail: LiveTail }) {
  const [isHeld, setIsHeld] = useState(false);
  const shown = useRef<Second[]>([]);
  const minute = advanceMinute(tail);
  if (minute && (!isHeld || shown.current.length === 0)) shown.current = sumSeconds(minute);
  return (
    <ScrolledRows
      label="Events of the last minute, second by second"
      headings={SECOND_HEADINGS}
      rowCount={shown.current.length}
      row={(at) => <SecondCells second={shown.current[at]!} />}
      rowClass={(at) => (shown.current[at]!.isLost ? 'lost' : undefined)}
      onVisit={setIsHeld}
    />
  );
}

function SecondCells({ second: { startNs, count, failed, longestNs, isLost } }: { second: Second }) {
  const atLeast = isLost ? 'at least ' : '';
  return (
    <>
      <td class="digits">{formatWallClock(startNs).slice(0, 23)}</td>
      <td class="number">{atLeast + groupDigits(count)}</td>
      <td class="number">{failed > 0 ? `✕ ${atLeast}${groupDigits(failed)}` : `${atLeast}0`}</td>
      <td class="number">{longestNs === null ? '' : formatShortDuration(longestNs)}</td>
      <td>{isLost ? '▲ not all' : '✓'}</td>
    </>
  );
}
