/** What is recorded now: how much of it, the last minute as a map, and the newest events. */
import { useEffect } from 'preact/hooks';
import { type Second, secondsOf } from '../../live/seconds.ts';
import { minuteOf, type Tail } from '../../live/tail.ts';
import { counted, rateText } from '../../numbers/amounts.ts';
import { grouped, shortDuration } from '../../numbers/exact_times.ts';
import { clockText } from '../../numbers/wall_clock.ts';
import { usePage } from '../context.ts';
import { FailureNote } from '../failure_note.tsx';
import { useKeys } from '../keys.ts';
import { WindowForm } from '../window_form.tsx';
import { MinuteMap } from './minute_map.tsx';
import { NewestTable } from './newest_table.tsx';
import { NothingYet } from './nothing_yet.tsx';
import { SecondsTable } from './seconds_table.tsx';
import { useTail } from './use_tail.ts';

/** Less than this is the way of an event, not a page that is slow. */
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

function Followed({ tail }: { tail: Tail }) {
  const { link, go, announce } = usePage();
  const { state, failure } = tail;
  const isPaused = state === 'paused';
  const sentence = sentenceOf(tail);
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
          ▲ {tail.kept.lostCount > 0 ? `At least ${counted(tail.kept.lostCount, 'event')}` : 'Events'}{' '}
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

const STATES: Readonly<Record<Tail['state'], string>> = {
  connecting: 'connecting',
  following: 'following',
  in_turns: 'following in turns, as other tabs have all four streams',
  cut: 'not connected: what is shown stands still',
  paused: 'paused: the daemon keeps what is recorded meanwhile',
  refused: 'not connected',
};

function Behind({ tail }: { tail: Tail }) {
  const behindMs = tail.behindMs(performance.now());
  if (behindMs < BEHIND_MS_MIN || tail.kept.eventCount === 0) return null;
  return (
    <>
      <strong class="behind">{shortDuration(Math.round(behindMs / 1000) * 1e9)} behind</strong>
      {tail.state !== 'cut' && tail.state !== 'refused' && (
        <button type="button" onClick={tail.jump}>
          Jump to now
        </button>
      )}
    </>
  );
}

function sentenceOf(tail: Tail): string {
  const { arrivals, eventCount } = tail.kept;
  const minute = minuteOf(tail);
  if (!minute || !arrivals || eventCount === 0)
    return tail.isFollowing ? 'No event has arrived yet.' : 'No event is here yet.';
  const readMs = tail.readMs(performance.now());
  const [second, mean] = [arrivals.perSecond(readMs), arrivals.perSecondOfMinute(readMs)];
  const when = tail.isFollowing ? '' : `As of ${clockText(arrivals.clockNs(readMs)).slice(11, 19)} UTC, `;
  const rate = `${when}${counted(second, 'event')} came in the last second, ${rateText(mean)} a second over the minute`;
  const { count, failed, longestNs, isLost } = whole(secondsOf(minute));
  if (count === 0) return `${rate}; none began in it.`;
  const atLeast = isLost ? 'at least ' : '';
  const failures = failed > 0 ? `${atLeast}${grouped(failed)} failed` : isLost ? 'none recorded failed' : 'none failed';
  return `${rate}: of ${atLeast}${grouped(count)} that began in it ${failures}, and the longest took ${shortDuration(longestNs!)}.`;
}

function whole(seconds: readonly Second[]): Omit<Second, 'startNs'> {
  const longest = seconds.reduce((most, { longestNs }) => Math.max(most, longestNs ?? -1), -1);
  return {
    count: seconds.reduce((sum, { count }) => sum + count, 0),
    failed: seconds.reduce((sum, { failed }) => sum + failed, 0),
    longestNs: longest < 0 ? null : longest,
    isLost: seconds.some(({ isLost }) => isLost),
  };
}
