/** What a replay is doing, in numbers and words. */
import type { Session } from '../feed/answers.ts';
import { durationText } from '../numbers/duration_text.ts';
import { grouped, shortDuration } from '../numbers/exact_times.ts';
import type { Replay } from '../replay/replay.ts';
import type { Schedule } from '../replay/schedule.ts';
import { shownName } from './names.ts';

/** A delay that nobody sees is not said. */
const DELAY_MS_MIN = 40;

export function ReplayFigures({ replay, schedule }: { replay: Replay; schedule: Schedule | null }) {
  const { state, event_index, event_count, lateness, rounds, starvations, times_out } = replay.session!;
  const isLate = lateness.late_events > 0;
  const delayMs = replay.delayMs();
  return (
    <>
      <p class="quiet figures">
        <span>
          {state}, event {grouped(event_index)} of {grouped(event_count)}
          {rounds > 0 && `, round ${grouped(rounds + 1)}`}
        </span>
        <span>
          {isLate ? '▲' : '●'} late by {shortDuration(lateness.p99_ns)} (p99), {shortDuration(Number(lateness.max_ns))}{' '}
          at most{isLate && `, ${grouped(lateness.late_events)} events by more than 1 ms`}
        </span>
        {starvations > 0 && <span>▲ {grouped(starvations)} events were not read in time</span>}
        <AskedOf session={replay.session!} />
        {times_out && <span>✕ times out</span>}
        <Skipped session={replay.session!} schedule={schedule} />
        {replay.isFast && <span>fast: positions in the place of single events</span>}
        {!replay.isConnected && <span>▲ not connected: what is shown may be old</span>}
        <Missed count={replay.missed} />
      </p>
      {delayMs >= DELAY_MS_MIN && <p class="loss">▲ display behind by {Math.round(delayMs)} ms</p>}
      {replay.isAtOwnEnd && (
        <p>Paused where the caller’s wait ends. Its data is written back later; play goes on to that.</p>
      )}
    </>
  );
}

/** The deadline of the session, and which events get its latency. */
function AskedOf({ session: { timeout_ns, only } }: { session: Session }) {
  const lists = [only.event_type, only.service, only.node].filter((list) => list !== undefined);
  return (
    <>
      {timeout_ns !== null && <span>deadline {durationText(BigInt(timeout_ns))}</span>}
      {lists.length > 0 && (
        <span>latency only for {lists.map((names) => names.map(shownName).join(' or ')).join(', ')}</span>
      )}
    </>
  );
}

function Skipped({ session: { max_gap_ns }, schedule }: { session: Session; schedule: Schedule | null }) {
  if (max_gap_ns === null || !schedule) return null;
  const gaps = `${grouped(schedule.cutCount)} idle ${schedule.cutCount === 1 ? 'part' : 'parts'}`;
  return (
    <span>
      skips {gaps}, {shortDuration(schedule.cutNs)} altogether: {shortDuration(BigInt(max_gap_ns))} is left of each
    </span>
  );
}

function Missed({ count }: { count: number | null }) {
  if (count === 0) return null;
  if (count === null) return <span>▲ this page missed events: the daemon was started again</span>;
  return <span>▲ this page missed {grouped(count)} events</span>;
}
