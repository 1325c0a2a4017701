/** Makes a player's state by hand: two threads on one node, events a millisecond apart. */

import { createPlayer, type ShownPlayer } from '../../../../daemon/cli/player/player_state.ts';
import type { ExactPlayedEvent, ReplaySession } from '../../../../daemon/cli/player/remote_session.ts';
import { START } from '../../recorded.ts';

const MS = 1_000_000;

export function sessionOf(more: Partial<ReplaySession> = {}): ReplaySession {
  return {
    session_id: 'session-1',
    transaction_id: 'order-1',
    speed_factor: 1,
    extra_latency_ns: 0,
    timeout_ns: null,
    max_gap_ns: null,
    only: {},
    loop: false,
    clock: [{ node: 'test-node', offset_ns: 0n, stepped_ns: 0n, source: 'none', uncertainty_ns: null }],
    state: 'paused',
    position_ns: 0,
    duration_ns: 10 * MS,
    replay_duration_ns: 10 * MS,
    replay_end_ns: more.replay_duration_ns ?? 10 * MS,
    event_index: 0,
    event_count: 10,
    times_out: false,
    timeout_event_id: null,
    rounds: 0,
    until: null,
    starts_at_ns: null,
    lateness: { p50_ns: 0, p99_ns: 0, max_ns: 0, late_events: 0 },
    starvations: 0,
    failure: null,
    last_event_id: 0,
    created_at: '2025-11-21T00:00:00.000Z',
    updated_at: '2025-11-21T00:00:00.000Z',
    ...more,
  };
}

export function playedOf(index: number, more: Partial<ExactPlayedEvent> = {}, replay: object = {}): ExactPlayedEvent {
  const offset_ns = index * MS;
  return {
    event_id: `00000000000000a1-${index.toString(16).padStart(16, '0')}`,
    event_type: 'sys_write',
    timestamp_ns: START + BigInt(offset_ns),
    duration_ns: MS / 2,
    service_name: 'shop',
    transaction_id: 'order-1',
    trace_id: null,
    span_id: null,
    attribution: { source: 'marker', quality: 'exact' },
    node: 'node-a',
    pid: 100,
    tid: 100 + (index % 2),
    comm: 'app',
    cpu: 0,
    result: 64,
    error: null,
    syscall: 'write',
    fd: 3,
    file: '/data/orders.db',
    file_kind: 'regular',
    bytes_requested: 64,
    replay: { index, offset_ns, due_ns: 0, lateness_ns: 1000, duration_ns: MS / 2, after_timeout: false, ...replay },
    ...more,
  } as unknown as ExactPlayedEvent;
}

/** A player that is paused after these events. */
export function playerBehind(events: readonly ExactPlayedEvent[], more: Partial<ReplaySession> = {}): ShownPlayer {
  const player = createPlayer(sessionOf({ state: 'playing', ...more }), 0);
  Object.assign(player.state, { services: ['shop'], nodes: ['node-a'], firstTimestampNs: START });
  for (const event of events) player.showEvent(event, 0);
  const { replay } = events.at(-1) ?? playedOf(0);
  const at = { position_ns: replay.offset_ns, event_index: events.length === 0 ? 0 : replay.index + 1 };
  player.showSession(sessionOf({ ...at, ...more }), 0);
  return player;
}
