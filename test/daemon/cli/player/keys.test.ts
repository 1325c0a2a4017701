/** Tests which action each key triggers in each state. */
import fc from 'fast-check';
import { type Action, chooseAction, type KeyContext, type KeyPress } from '../../../../daemon/cli/player/keys.ts';
import type { SessionRequest } from '../../../../daemon/cli/player/remote_session.ts';
import {
  changeRequest,
  EXTRA_LATENCY_NS_MAX,
  SPEED_FACTOR_MAX,
  SPEED_FACTOR_MIN,
} from '../../../../daemon/contract/replay_requests.ts';
import { type Command, type SessionState, STATES, TRANSITIONS } from '../../../../daemon/contract/transitions.ts';

const MS = 1_000_000n;

function place(state: SessionState, more: Partial<KeyContext['session']> = {}, positionNs = 50n * MS): KeyContext {
  const event_index = state === 'finished' ? 100 : 50;
  return {
    session: { state, speed_factor: 1, extra_latency_ns: 0, event_index, event_count: 100, ...more },
    positionNs,
    durationNs: 100n * MS,
  };
}

const key = (name: string, shift = false): KeyPress => ({ name, sequence: name, shift });
const latencyOf = (extra_latency_ns: number | bigint) => place('playing', { extra_latency_ns });
const changeTo = (extra_latency_ns: bigint) => ({ change: { extra_latency_ns } });
const request = (action: Action | null) => (action?.kind === 'send' ? action.request : action);

test.each<[string, KeyPress, KeyContext, SessionRequest | null]>([
  ['space pauses', key('space'), place('playing'), { command: 'pause' }],
  ['space plays on', key('space'), place('paused'), { command: 'play' }],
  ['space plays again', key('space'), place('finished'), { command: 'play' }],
  ['right steps', key('right'), place('paused'), { step: 1 }],
  ['left steps back', key('left'), place('finished'), { step: -1 }],
  ['shift steps ten', key('left', true), place('paused'), { step: -10 }],
  ['right at the end', key('right'), place('finished'), null],
  ['left at the start', key('left'), place('paused', { event_index: 0 }), null],
  ['right skips 1 % of what plays', key('right'), place('playing'), { seek: { position_ns: 51n * MS } }],
  ['shift skips 10 %', key('left', true), place('playing'), { seek: { position_ns: 40n * MS } }],
  ['not before the start', key('pageup'), place('paused', {}, MS), { seek: { position_ns: 0n } }],
  ['not past the end', key('pagedown'), place('playing', {}, 99n * MS), { seek: { position_ns: 100n * MS } }],
  ['home', key('home'), place('playing'), { seek: { event_index: 0 } }],
  ['end', key('end'), place('paused'), { seek: { event_index: 100 } }],
  ['plus', { sequence: '+' }, place('playing'), { change: { speed_factor: 2 } }],
  ['minus', { sequence: '-' }, place('paused'), { change: { speed_factor: 0.5 } }],
  ['backspace', key('backspace'), place('playing', { speed_factor: 8 }), { change: { speed_factor: 1 } }],
  ['no faster than the fastest', { sequence: '+' }, place('playing', { speed_factor: 1000 }), null],
  ['l', key('l'), place('playing'), changeTo(100_000n)],
  ['l once more', key('l'), latencyOf(100_000), changeTo(200_000n)],
  ['l from between two steps', key('l'), latencyOf(600_001), changeTo(MS)],
  ['l at the end', key('l'), place('finished', { extra_latency_ns: 5n * MS }), changeTo(10n * MS)],
  ['the last step', key('l'), latencyOf(2_000_000n * MS), changeTo(EXTRA_LATENCY_NS_MAX)],
  ['no more than the most', key('l'), latencyOf(EXTRA_LATENCY_NS_MAX), null],
  ['L', key('l', true), latencyOf(MS), changeTo(500_000n)],
  ['L from between two steps', key('l', true), latencyOf(1_000_001), changeTo(MS)],
  ['L from below the first step', key('l', true), latencyOf(1n), changeTo(0n)],
  ['no less than nothing', key('l', true), place('paused'), null],
  ['any other key', key('x'), place('playing'), null],
])('%s', (_, pressed, at, expected) => {
  expect(request(chooseAction(pressed, at))).toEqual(expected);
});

test.each<[string, KeyPress, string]>([
  ['q', key('q'), 'quit'],
  ['Ctrl-C', { name: 'c', sequence: '\u0003', ctrl: true }, 'interrupt'],
  ['?', { sequence: '?' }, 'help'],
  ['z', key('z'), 'zoom in'],
  ['Z', key('z', true), 'zoom out'],
])('%s works in every state', (_, pressed, kind) => {
  for (const state of STATES) expect(chooseAction(pressed, place(state))).toEqual({ kind });
});

test('no key sends a request that the session would refuse', () => {
  const names = [
    'space',
    'left',
    'right',
    'pageup',
    'pagedown',
    'home',
    'end',
    'backspace',
    '+',
    '-',
    '=',
    'l',
    'z',
    'q',
  ];
  const anyKey = fc.record({
    name: fc.option(fc.oneof(fc.constantFrom(...names), fc.string()), { nil: undefined }),
    sequence: fc.oneof(fc.constantFrom(...names), fc.string()),
    shift: fc.boolean(),
    ctrl: fc.boolean(),
  });
  const session = fc.record({
    state: fc.constantFrom(...STATES),
    speed_factor: fc.double({ min: SPEED_FACTOR_MIN, max: SPEED_FACTOR_MAX, noNaN: true }),
    extra_latency_ns: fc.bigInt(0n, EXTRA_LATENCY_NS_MAX),
    event_index: fc.integer({ min: 0, max: 20 }),
  });
  fc.assert(
    fc.property(anyKey, session, fc.bigInt(0n, 10n ** 18n), fc.bigInt(0n, 10n ** 18n), (pressed, of, a, b) => {
      const [positionNs, durationNs] = a < b ? [a, b] : [b, a];
      const event_index = of.state === 'finished' ? 20 : of.event_index;
      const at = { session: { ...of, event_index, event_count: 20 }, positionNs, durationNs };
      const asked = request(chooseAction(pressed, at));
      if (asked === null || 'kind' in asked) return;
      expect(TRANSITIONS[commandOf(asked)][of.state]).not.toBeNull();
      if ('change' in asked) {
        expect(changeRequest.safeParse(asked.change)).toMatchObject({ success: true });
        expect(of).not.toMatchObject(asked.change);
      }
      if ('seek' in asked && 'position_ns' in asked.seek) {
        expect(asked.seek.position_ns >= 0n && asked.seek.position_ns <= durationNs).toBe(true);
      }
    }),
  );
});

function commandOf(asked: SessionRequest): Command {
  if ('command' in asked) return asked.command;
  if ('seek' in asked) return 'seek';
  if ('change' in asked) return 'change';
  return asked.step > 0 ? 'step' : 'step_back';
}

test('latency changes by the same steps in both directions, and every key press has an effect', () => {
  const steps = [0n];
  for (let asked = press(0n, false); asked !== null; asked = press(steps.at(-1)!, false)) steps.push(asked);
  const MS_STEPS = [0n, 100_000n, 200_000n, 500_000n, MS, 2n * MS, 5n * MS, 10n * MS, 20n * MS];
  expect(steps.slice(0, 9)).toEqual(MS_STEPS);
  expect(steps.slice(-3)).toEqual([1_000_000n * MS, 2_000_000n * MS, EXTRA_LATENCY_NS_MAX]);
  expect(steps.slice(1).map((ns) => press(ns, true))).toEqual(steps.slice(0, -1));
});

function press(fromNs: bigint, shift: boolean): bigint | null {
  const asked = request(chooseAction(key('l', shift), latencyOf(fromNs)));
  return asked && (asked as ReturnType<typeof changeTo>).change.extra_latency_ns;
}
