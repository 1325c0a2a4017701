/** Shows the controls for the replay of a transaction. */

import { useCallback, useEffect, useMemo, useRef } from 'preact/hooks';
import type { ReceivedBurst, ReceivedSession } from '../../contract/received.ts';
import type { Command } from '../../contract/transitions.ts';
import type { LanesModel } from '../../model/lanes/model.ts';
import { formatQuantity } from '../../model/wording/amounts.ts';
import { formatShortDuration, groupDigits } from '../../model/wording/exact_times.ts';
import { formatName } from '../../model/wording/names.ts';
import { formatDuration } from '../numbers/duration_text.ts';
import { createPace } from '../replay/pace.ts';
import type { Change, Replay } from '../replay/replay.ts';
import type { RowSchedule } from '../replay/schedule.ts';
import { IDLE_NS, lowerLatency, lowerSpeed, raiseLatency, raiseSpeed } from '../replay/settings.ts';
import { buildExpectedSettings, type ShownSettings } from '../replay/settings_in_link.ts';
import { usePage } from './context.ts';
import { FailureNote } from './failure_note.tsx';
import { Fold } from './fold.tsx';
import { useKeys } from './keys.ts';
import { ReplaySettings } from './replay_settings.tsx';
import type { PlayedReplay } from './use_played.ts';

interface Props {
  played: PlayedReplay;
  model: LanesModel;
  bursts: readonly ReceivedBurst[];
}

const CHANGE_EVERY_MS = 100;
const GONE = 'session_not_found';

export function ReplayBar({ played, model, bursts }: Props) {
  const { access, announce, link } = usePage();
  const { replay } = played;
  const mayPlay = access.scopes.includes('replay:control');
  const session = replay?.session ?? null;
  // The recorded duration is used until a session has a duration.
  const recordedNs = model.ownSpan ? model.ownSpan.toNs - model.firstNs : 0;
  const endNs = Number(session?.replay_end_ns ?? session?.replay_duration_ns ?? recordedNs);
  const isGone = replay?.failure?.code === GONE;
  const can = (command: Command) =>
    mayPlay && (isGone || replay === null || replay.session === null || replay.can(command));
  const changing = useChanges(played);
  const settings = () => replay?.session ?? buildExpectedSettings(link);
  const actions = createActions(played, changing, settings, endNs);

  useKeys((key, target) => {
    // A slider handles these keys itself.
    if ((key === 'Home' || key === 'End') && target.matches('input[type=range]')) return false;
    const action = mayPlay ? actions.get(key) : undefined;
    void action?.();
    return action !== undefined;
  });
  useEffect(() => {
    if (replay?.isAtOwnEnd) announce('Paused where the caller’s wait ends.');
  }, [replay?.isAtOwnEnd]);
  const press = (key: string) => () => void actions.get(key)!();
  const { open } = played;
  // `useCallback` returns the same function in all renderings: an animation that keeps a function of an earlier
  // rendering would also keep the events of that rendering in memory.
  const onSeek = useCallback(
    (position_ns: bigint) => void openAndRun({ open }, (opened) => opened.seek({ position_ns })),
    [open],
  );
  return (
    <section class="replay" aria-label="Replay">
      {!mayPlay && <p class="quiet">This token cannot play: that needs the scope replay:control.</p>}
      {replay?.failure && <FailureNote failure={replay.failure} />}
      {isGone && mayPlay && (
        <button type="button" onClick={() => void played.restore()}>
          New session at the same place
        </button>
      )}
      <div class="controls">
        <PlayButtons isPlaying={session?.state === 'playing'} can={can} press={press} />
        <ReplaySeek replay={replay} endNs={endNs} isOff={!can('seek')} onSeek={onSeek} />
        <Fold title="Speed and latency">
          <div class="controls">
            <ReplaySettings
              {...{ settings: settings(), press, isOff: !can('change') }}
              onSpeed={(speed_factor) => changing.change({ speed_factor })}
            />
          </div>
          {bursts.length > 1 && settings().max_gap_ns === null && (
            <p class="loss">▲ Nothing happens for a long time between the bursts: “skip idle” cuts it.</p>
          )}
        </Fold>
      </div>
      {session && <ReplayFigures replay={replay!} schedule={played.schedule} />}
    </section>
  );
}

interface ButtonsProps {
  isPlaying: boolean;
  can: (command: Command) => boolean;
  press: (code: string) => () => void;
}

function PlayButtons({ isPlaying, can, press }: ButtonsProps) {
  return (
    <>
      <button type="button" disabled={!can('seek')} onClick={press('Home')} title="to the start (Home)">
        |◀<span class="spoken">to the start</span>
      </button>
      <button
        type="button"
        disabled={!can(isPlaying ? 'pause' : 'step_back')}
        onClick={press(',')}
        title="one event back (,)"
      >
        ◂<span class="spoken">one event back</span>
      </button>
      <button
        type="button"
        class="primary"
        disabled={!can(isPlaying ? 'pause' : 'play')}
        onClick={press('Space')}
        title={isPlaying ? 'pause (space)' : 'play (space)'}
      >
        {isPlaying ? '❚❚' : '▶'}
        <span class="spoken">{isPlaying ? 'pause' : 'play'}</span>
      </button>
      <button
        type="button"
        disabled={!can(isPlaying ? 'pause' : 'step')}
        onClick={press('.')}
        title="one event forward (.)"
      >
        ▸<span class="spoken">one event forward</span>
      </button>
    </>
  );
}

async function openAndRun({ open }: Pick<PlayedReplay, 'open'>, run: (opened: Replay) => Promise<void>): Promise<void> {
  const opened = await open();
  if (opened) await run(opened);
}

interface PendingChanges {
  /** Changes that were requested but are not answered yet. */
  readonly asked: Change;
  change(change: Change): void;
}

/**
 * Changes a session at most once every `CHANGE_EVERY_MS`, to limit the requests to the daemon; changes that wait are
 * sent together.
 */
function useChanges(played: PlayedReplay): PendingChanges {
  const pace = useMemo(() => createPace(CHANGE_EVERY_MS), []);
  const waiting = useMemo<{ asked: Change }>(() => ({ asked: {} }), []);
  useEffect(() => pace.cancel, [pace]);
  return {
    get asked() {
      return waiting.asked;
    },
    change(change) {
      waiting.asked = { ...waiting.asked, ...change };
      pace.run(() => {
        const sent = waiting.asked;
        const clearAsked = () => {
          if (waiting.asked === sent) waiting.asked = {};
        };
        void openAndRun(played, (opened) => applyChange(opened, sent)).finally(clearAsked);
      });
    },
  };
}

/**
 * Applies a change. A change of latency or gaps affects only later events. A seek to the present event then applies
 * the new values to all events.
 */
async function applyChange(opened: Replay, change: Change): Promise<void> {
  await opened.change(change);
  const isLaidOut = 'extra_latency_ns' in change || 'max_gap_ns' in change;
  if (isLaidOut && opened.session && opened.can('seek')) await opened.seek({ event_index: opened.session.event_index });
}

function createActions(played: PlayedReplay, changes: PendingChanges, settings: () => ShownSettings, endNs: number) {
  const run = (command: (opened: Replay) => Promise<void>) => () => openAndRun(played, command);
  const step = (count: number) =>
    run(async (opened) => {
      if (opened.session?.state === 'playing') await opened.send('pause');
      await opened.step(count);
      played.sayPlayed();
    });
  /** Returns the settings with all requested changes, so that a held key continues from the requested values. */
  const mergeAsked = () => ({ ...settings(), ...changes.asked });
  const set = (changed: () => Change) => async () => changes.change(changed());
  const getLatencyNs = () => BigInt(mergeAsked().extra_latency_ns);
  return new Map<string, () => Promise<void>>([
    ['Space', run((opened) => opened.send(opened.session?.state === 'playing' ? 'pause' : 'play'))],
    ['.', step(1)],
    [',', step(-1)],
    ['Home', run((opened) => opened.seek({ event_index: 0 }))],
    ['End', run((opened) => opened.seek({ position_ns: BigInt(Math.round(endNs)) }))],
    ['+', set(() => ({ speed_factor: raiseSpeed(mergeAsked().speed_factor) }))],
    ['-', set(() => ({ speed_factor: lowerSpeed(mergeAsked().speed_factor) }))],
    ['L', set(() => ({ extra_latency_ns: raiseLatency(getLatencyNs()) }))],
    ['L+Shift', set(() => ({ extra_latency_ns: lowerLatency(getLatencyNs()) }))],
    ['O', set(() => ({ loop: !mergeAsked().loop }))],
    ['I', set(() => ({ max_gap_ns: mergeAsked().max_gap_ns === null ? IDLE_NS : null }))],
  ]);
}

/* Shows the state of a replay, in numbers and words. */

/** Shortest delay that is shown; a shorter delay is not noticeable. */
const DELAY_MS_MIN = 40;

function ReplayFigures({ replay, schedule }: { replay: Replay; schedule: RowSchedule | null }) {
  const { state, event_index, event_count, lateness, rounds, starvations, times_out } = replay.session!;
  const isLate = lateness.late_events > 0;
  const delayMs = replay.delayMs();
  return (
    <>
      <p class="quiet figures">
        <span>
          {state}, event {groupDigits(event_index)} of {groupDigits(event_count)}
          {rounds > 0 && `, round ${groupDigits(rounds + 1)}`}
        </span>
        <span>
          {isLate ? '▲' : '●'} late by {formatShortDuration(lateness.p99_ns)} (p99),{' '}
          {formatShortDuration(Number(lateness.max_ns))} at most
          {isLate && `, ${groupDigits(lateness.late_events)} events by more than 1 ms`}
        </span>
        {starvations > 0 && <span>▲ {groupDigits(starvations)} events were not read in time</span>}
        <AskedOf session={replay.session!} />
        {times_out && <span>✕ times out</span>}
        <Skipped session={replay.session!} schedule={schedule} />
        {replay.isFast && <span>fast: positions in the place of single events</span>}
        {!replay.isConnected && <span>▲ not connected: what is shown may be old</span>}
        <Missed count={replay.missed} />
      </p>
      {delayMs >= DELAY_MS_MIN && <p class="loss">{`▲ display behind by ${Math.round(delayMs)} ms`}</p>}
      {replay.isAtOwnEnd && (
        <p>Paused where the caller’s wait ends. Its data is written back later; play goes on to that.</p>
      )}
    </>
  );
}

/** Shows the deadline of the session, and which events get the session's latency. */
function AskedOf({ session: { timeout_ns, only } }: { session: ReceivedSession }) {
  const lists = [only.event_type, only.service, only.node].filter((list) => list !== undefined);
  return (
    <>
      {timeout_ns !== null && <span>deadline {formatDuration(BigInt(timeout_ns))}</span>}
      {lists.length > 0 && (
        <span>latency only for {lists.map((names) => names.map(formatName).join(' or ')).join(', ')}</span>
      )}
    </>
  );
}

function Skipped({ session: { max_gap_ns }, schedule }: { session: ReceivedSession; schedule: RowSchedule | null }) {
  if (max_gap_ns === null || !schedule) return null;
  const gaps = formatQuantity(schedule.cutCount, 'idle part');
  return (
    <span>
      skips {gaps}, {formatShortDuration(schedule.cutNs)} altogether: {formatShortDuration(BigInt(max_gap_ns))} is left
      of each
    </span>
  );
}

function Missed({ count }: { count: number | null }) {
  if (count === 0) return null;
  if (count === null) return <span>▲ this page missed events: the daemon was started again</span>;
  return <span>▲ this page missed {groupDigits(count)} events</span>;
}

/*
 * The slider for the position of the clock. The clock moves the slider without rendering the bar again; pointer and
 * keys also move it.
 */

const STEPS = 1000;

interface SeekProps {
  replay: Replay | null;
  endNs: number;
  isOff: boolean;
  onSeek: (positionNs: bigint) => void;
}

function ReplaySeek({ replay, endNs, isOff, onSeek }: SeekProps) {
  const input = useRef<HTMLInputElement>(null);
  const text = useRef<HTMLOutputElement>(null);
  const isHeld = useRef(false);
  const computeHeldNs = () => Math.round((Number(input.current!.value) / STEPS) * endNs);
  const release = () => {
    isHeld.current = false;
  };
  useEffect(() => {
    let frame = 0;
    const show = () => {
      const positionNs = isHeld.current
        ? computeHeldNs()
        : (replay?.playhead.computePositionNs(performance.now()) ?? 0);
      const words = `${formatShortDuration(positionNs)} of ${formatShortDuration(endNs)}`;
      if (!isHeld.current && input.current)
        input.current.value = String(Math.round((positionNs / Math.max(1, endNs)) * STEPS));
      if (input.current?.getAttribute('aria-valuetext') !== words) input.current?.setAttribute('aria-valuetext', words);
      if (text.current && text.current.textContent !== words) text.current.textContent = words;
      frame = requestAnimationFrame(show);
    };
    show();
    return () => cancelAnimationFrame(frame);
  }, [replay, endNs]);
  return (
    <>
      <input
        ref={input}
        type="range"
        class="seek"
        aria-label="Position"
        min="0"
        max={STEPS}
        disabled={isOff}
        onInput={() => {
          isHeld.current = true;
        }}
        // A pointer that returns to its starting point causes no `change` event, so the slider is released here.
        onPointerUp={() => setTimeout(release)}
        onBlur={release}
        onChange={() => {
          release();
          onSeek(BigInt(computeHeldNs()));
        }}
      />
      <output ref={text} class="digits" />
    </>
  );
}
