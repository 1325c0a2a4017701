/** The controls of a replay, for as long as a transaction is shown. */
import { useEffect, useRef } from 'preact/hooks';
import type { Command } from '../../replay/transitions.ts';
import type { Session } from '../feed/answers.ts';
import { grouped, shortDuration } from '../numbers/exact_times.ts';
import type { Replay } from '../replay/replay.ts';
import { fasterThan, lessLatency, moreLatency, SPEEDS, slowerThan, speedText } from '../replay/settings.ts';
import { usePage } from './context.ts';
import { FailureNote } from './failure_note.tsx';
import { onKey } from './keys.ts';

interface Props {
  /** Null until the first command makes a session. */
  replay: Replay | null;
  /** Makes a session where there is none. */
  open: () => Promise<Replay | null>;
  /** Duration of the recorded transaction, until a session says its own. */
  recordedNs: number;
}

const STEPS_OF_SEEK = 1000;

export function ReplayBar({ replay, open, recordedNs }: Props) {
  const { access } = usePage();
  const mayPlay = access.scopes.includes('replay:control');
  const session = replay?.session ?? null;
  const endNs = Number(session?.replay_end_ns ?? session?.replay_duration_ns ?? recordedNs);
  const can = (command: Command) => mayPlay && (replay === null || replay.session === null || replay.can(command));
  const actions = actionsOf(replay, open, endNs);

  useEffect(
    () =>
      onKey((code) => {
        const action = mayPlay ? actions.get(code) : undefined;
        void action?.();
        return action !== undefined;
      }),
    [replay, session?.state, session?.speed_factor, session?.extra_latency_ns, session?.loop, endNs, mayPlay],
  );
  const press = (code: string) => () => void actions.get(code)!();
  const onSpeed = (speed_factor: number) => void ready(replay, open, (opened) => opened.change({ speed_factor }));
  return (
    <section class="replay" aria-label="Replay">
      {!mayPlay && <p class="quiet">This token cannot play: that needs the scope replay:control.</p>}
      {replay?.failure && <FailureNote failure={replay.failure} />}
      <div class="controls">
        <PlayButtons isPlaying={session?.state === 'playing'} can={can} press={press} />
        <Seek replay={replay} endNs={endNs} isOff={!can('seek')} />
        <Settings session={session} isOff={!can('change')} press={press} onSpeed={onSpeed} />
      </div>
      {session && <Figures replay={replay!} />}
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
      <button type="button" disabled={!can('step_back')} onClick={press('Comma')} title="one event back (,)">
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
      <button type="button" disabled={!can('step')} onClick={press('Period')} title="one event forward (.)">
        ▸<span class="spoken">one event forward</span>
      </button>
    </>
  );
}

interface SettingsProps {
  session: Session | null;
  isOff: boolean;
  press: (code: string) => () => void;
  onSpeed: (speedFactor: number) => void;
}

function Settings({ session, isOff, press, onSpeed }: SettingsProps) {
  const speedFactor = session?.speed_factor ?? 1;
  return (
    <>
      <label>
        Speed
        <select
          disabled={isOff}
          value={String(speedFactor)}
          onChange={({ currentTarget }) => onSpeed(Number(currentTarget.value))}
        >
          {speedsWith(speedFactor).map((speed) => (
            <option key={speed} value={String(speed)}>
              {speedText(speed)}
            </option>
          ))}
        </select>
      </label>
      <label>
        <input type="checkbox" disabled={isOff} checked={session?.loop ?? false} onChange={press('KeyO')} />
        loop
      </label>
      <button type="button" disabled={isOff} onClick={press('KeyL+Shift')} title="less extra latency (Shift+L)">
        −<span class="spoken">less extra latency</span>
      </button>
      <span>+{shortDuration(BigInt(session?.extra_latency_ns ?? 0))} each</span>
      <button type="button" disabled={isOff} onClick={press('KeyL')} title="more extra latency (L)">
        +<span class="spoken">more extra latency</span>
      </button>
    </>
  );
}

function Figures({ replay }: { replay: Replay }) {
  const { state, event_index, event_count, lateness, rounds, starvations, times_out } = replay.session!;
  const isLate = lateness.late_events > 0;
  return (
    <p class="quiet figures">
      <span>
        {state}, event {grouped(event_index)} of {grouped(event_count)}
        {rounds > 0 && `, round ${grouped(rounds + 1)}`}
      </span>
      <span>
        {isLate ? '▲' : '●'} late by {shortDuration(lateness.p99_ns)} (p99), {shortDuration(Number(lateness.max_ns))} at
        most{isLate && `, ${grouped(lateness.late_events)} events by more than 1 ms`}
      </span>
      {starvations > 0 && <span>▲ {grouped(starvations)} events were not read in time</span>}
      {times_out && <span>✕ times out</span>}
      {!replay.isConnected && <span>▲ not connected: what is shown may be old</span>}
      {replay.missed > 0 && <span>▲ this page missed {grouped(replay.missed)} events</span>}
    </p>
  );
}

/** The place of the clock, moved without a new rendering of the bar. */
function Seek({ replay, endNs, isOff }: { replay: Replay | null; endNs: number; isOff: boolean }) {
  const input = useRef<HTMLInputElement>(null);
  const text = useRef<HTMLOutputElement>(null);
  const isHeld = useRef(false);
  useEffect(() => {
    let frame = 0;
    const show = () => {
      const positionNs = replay?.playhead.at(performance.now()) ?? 0;
      const words = `${shortDuration(positionNs)} of ${shortDuration(endNs)}`;
      if (!isHeld.current && input.current) {
        input.current.value = String(Math.round((positionNs / Math.max(1, endNs)) * STEPS_OF_SEEK));
        input.current.setAttribute('aria-valuetext', words);
      }
      if (text.current && text.current.textContent !== words) text.current.textContent = words;
      frame = requestAnimationFrame(show);
    };
    show();
    return () => cancelAnimationFrame(frame);
  }, [replay, endNs]);
  const seek = () => {
    isHeld.current = false;
    const share = Number(input.current!.value) / STEPS_OF_SEEK;
    void replay?.seek({ position_ns: BigInt(Math.round(share * endNs)) });
  };
  return (
    <>
      <input
        ref={input}
        type="range"
        class="seek"
        aria-label="Position"
        min="0"
        max={STEPS_OF_SEEK}
        disabled={isOff || replay === null}
        onInput={() => {
          isHeld.current = true;
        }}
        onChange={seek}
      />
      <output ref={text} class="digits" />
    </>
  );
}

async function ready(
  replay: Replay | null,
  open: () => Promise<Replay | null>,
  run: (opened: Replay) => Promise<void>,
): Promise<void> {
  const isGone = replay?.failure?.code === 'session_not_found';
  const opened = replay && !isGone ? replay : await open();
  if (opened) await run(opened);
}

function actionsOf(replay: Replay | null, open: () => Promise<Replay | null>, endNs: number) {
  const session = replay?.session ?? null;
  const speed = session?.speed_factor ?? 1;
  const latencyNs = BigInt(session?.extra_latency_ns ?? 0);
  const run = (command: (opened: Replay) => Promise<void>) => () => ready(replay, open, command);
  /** A new latency is for the events to come, so all are laid out again with it where the clock is. */
  const setLatency = (extra_latency_ns: bigint) =>
    run(async (opened) => {
      await opened.change({ extra_latency_ns });
      if (opened.session && opened.can('seek')) await opened.seek({ event_index: opened.session.event_index });
    });
  return new Map<string, () => Promise<void>>([
    ['Space', run((opened) => opened.send(opened.session?.state === 'playing' ? 'pause' : 'play'))],
    ['Period', run((opened) => opened.step(1))],
    ['Comma', run((opened) => opened.step(-1))],
    ['Home', run((opened) => opened.seek({ event_index: 0 }))],
    ['End', run((opened) => opened.seek({ position_ns: BigInt(Math.round(endNs)) }))],
    ['Equal+Shift', run((opened) => opened.change({ speed_factor: fasterThan(speed) }))],
    ['NumpadAdd', run((opened) => opened.change({ speed_factor: fasterThan(speed) }))],
    ['Minus', run((opened) => opened.change({ speed_factor: slowerThan(speed) }))],
    ['NumpadSubtract', run((opened) => opened.change({ speed_factor: slowerThan(speed) }))],
    ['KeyL', setLatency(moreLatency(latencyNs))],
    ['KeyL+Shift', setLatency(lessLatency(latencyNs))],
    ['KeyO', run((opened) => opened.change({ loop: !(session?.loop ?? false) }))],
  ]);
}

/** The speeds to choose from, with the one that another client may have set. */
function speedsWith(speed: number): readonly number[] {
  return SPEEDS.includes(speed) ? SPEEDS : [...SPEEDS, speed].sort((a, b) => a - b);
}
