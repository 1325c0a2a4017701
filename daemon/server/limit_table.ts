/** The table of the daemon's limits, made from the constants that the code uses. */
import { maxHeaderSize } from 'node:http';
import { PINNED_SHARE_MAX } from '../../agent/recording/retain/pins.ts';
import { LIMIT_DEFAULT, LIMIT_MAX } from '../contract/event_query.ts';
import { EXTRA_LATENCY_NS_MAX, SPEED_FACTOR_MAX, STEP_EVENTS_MAX } from '../contract/replay_requests.ts';
import { PIPELINED_MAX } from '../http/access/one_at_a_time.ts';
import {
  KEEPING_MAX,
  KEEPING_WAIT_MS_MAX,
  KEEPING_WAITING_MAX,
  QUERY_TIMEOUT_MS_DEFAULT,
  SCANS_MAX_DEFAULT,
  SMALL_ROWS_MAX,
  WAIT_MS_MAX_DEFAULT,
  WAITING_PER_SCAN,
  WHOLE_BYTES_MAX,
} from '../http/access/scan_gate.ts';
import { STREAMS_MAX } from '../http/access/stream_room.ts';
import { SMALL_BYTES_MAX, UNSENT_BYTES_MAX_DEFAULT } from '../http/access/unsent.ts';
import { BODY_BYTES_MAX } from '../http/body.ts';
import { CURVES_MAX } from '../http/routes/curves.ts';
import { EXPLAINED_EVENTS_MAX, EXPLAINED_OTHERS_MAX } from '../http/routes/explanation.ts';
import { DEFAULT_LIMITS } from '../replay/session/sessions.ts';
import { VIEWERS_MAX } from '../replay/session/stream.ts';
import { LISTED_BURSTS, OWN_BURSTS } from '../store/transaction_bursts.ts';
import { KEPT_EVENTS_MAX } from '../sums/differences/chosen_transactions.ts';
import { STATS_ROWS_MAX } from '../sums/stats.ts';
import { FLEET_TAILS_MAX, TAILS_MAX } from '../tail/tails.ts';
import {
  CONNECTIONS_MAX,
  CONNECTIONS_PER_CLIENT_MAX,
  HEADERS_TIMEOUT_MS,
  KEPT_MAX,
  REQUEST_TIMEOUT_MS,
} from './server.ts';

const formatSeconds = (ms: number) => `${ms / 1000} s`;
const formatKib = (bytes: number) => `${bytes / 1024} KiB`;
const formatMib = (bytes: number) => `${bytes / 1024 / 1024} MiB`;
const count = (number: number) => number.toLocaleString('en-US');

const SLOWEST_MAKES_ROOM =
  'the connection that has waited longest for its client makes room, then the slowest of those whose client has taken less than 64 KiB of its answer in 10 s; no other answer in progress is closed';

const LIMITS: readonly (readonly [limit: string, value: string, beyond: string])[] = [
  [
    'connections',
    `${CONNECTIONS_MAX}, ${CONNECTIONS_PER_CLIENT_MAX} of one address on another machine`,
    SLOWEST_MAKES_ROOM,
  ],
  ['connections for `/healthz`, `/readyz` and `/metrics`', `${KEPT_MAX} more`, ''],
  [
    'live streams',
    `${STREAMS_MAX} together, ${TAILS_MAX} live tails (${FLEET_TAILS_MAX} of a fleet), ${VIEWERS_MAX} viewers of a session`,
    '429',
  ],
  [
    'memory of all answers together',
    `${formatMib(UNSENT_BYTES_MAX_DEFAULT)}, and ${formatMib(SMALL_BYTES_MAX)} for small questions`,
    'the slowest is closed likewise, or 503 `busy`',
  ],
  [
    'requests of a connection that wait for its answers before them',
    count(PIPELINED_MAX),
    'the connection is closed; its requests are answered one at a time',
  ],
  ['headers of a request', `${formatSeconds(HEADERS_TIMEOUT_MS)}, ${formatKib(maxHeaderSize)}`, '408, 431'],
  ['a request', `${formatSeconds(REQUEST_TIMEOUT_MS)}, ${formatKib(BODY_BYTES_MAX)}`, '408, 413'],
  [
    'queries, sums, lists of transactions and new replays at once',
    `\`--max-scans\` (${SCANS_MAX_DEFAULT})`,
    `${WAITING_PER_SCAN} times as many wait for ${formatSeconds(WAIT_MS_MAX_DEFAULT)} at most, then 503 \`busy\`; readers that do not read take no slot`,
  ],
  [
    `small questions at once: at most ${SMALL_ROWS_MAX} events in order of time, or transactions that are not chosen by values of their events, as JSON; what one transaction was slow for, or what if`,
    `\`--max-scans\` (${SCANS_MAX_DEFAULT}) more`,
    'as many wait; one that needs many steps goes on among the queries',
  ],
  [
    'comparisons, and choices of transactions by values of their events, at once',
    count(KEEPING_MAX),
    `${KEEPING_WAITING_MAX} wait in order for ${formatSeconds(KEEPING_WAIT_MS_MAX)} at most, then 503 \`busy\``,
  ],
  [
    'one page',
    `\`--query-timeout\` (${formatSeconds(QUERY_TIMEOUT_MS_DEFAULT)})`,
    '503 `query_timeout`, never a part of the page; a stream that finds nothing for that long breaks off without its end',
  ],
  [
    'events in a page',
    `\`limit\`, ${count(LIMIT_MAX)} at most, default ${count(LIMIT_DEFAULT)}, and ${formatMib(WHOLE_BYTES_MAX)}`,
    'a cursor continues',
  ],
  [
    'events that `/api/differences` reads, and a filter of transactions by values of their events',
    count(KEPT_EVENTS_MAX),
    'of differences the time of the box alone; then 400 `too_many_events`',
  ],
  [
    'events of a transaction that is explained',
    count(EXPLAINED_EVENTS_MAX),
    '400 `too_many_events`: never an explanation of a part that it does not name',
  ],
  [
    'requests of others that an explanation counts',
    count(EXPLAINED_OTHERS_MAX),
    '`neighbours_complete` is false, and the sentence says "at least"',
  ],
  ['transactions of a what-if with `where`', `the newest ${count(CURVES_MAX)}`, '`are_more` is true'],
  [
    'events that are read for `burst_count`',
    `${count(OWN_BURSTS.eventsMax)} of one transaction; in a list ${count(LISTED_BURSTS.eventsMax)} of ${LISTED_BURSTS.transactionsMax} transactions`,
    'null',
  ],
  ['rows of `/api/stats`', count(STATS_ROWS_MAX), '400 `too_many_groups`'],
  [
    'replay sessions',
    `\`--sessions-max\` (${count(DEFAULT_LIMITS.sessionsMax)}), \`--session-idle\` (${DEFAULT_LIMITS.idleMs / 3_600_000}h)`,
    '429 `session_limit`',
  ],
  ['events that all sessions play', '`--replay-rate-max` a second (measured at start)', '429 `replay_capacity`'],
  ['speed of a session', `${count(SPEED_FACTOR_MAX)} times the recorded one`, '400 `invalid_body`'],
  ['extra latency of a call', `${EXTRA_LATENCY_NS_MAX / 3_600_000_000_000n} h`, '400 `invalid_body`'],
  ['events of one step', count(STEP_EVENTS_MAX), '400 `invalid_body`'],
  [
    'pins, when one is set',
    `${PINNED_SHARE_MAX * 100} % of \`--retain-bytes\``,
    '409 `pins_full`; a pinned transaction that goes on [grows past it](query.md#pins-keep-what-matters)',
  ],
];

export function limitTable(): string {
  const rows = LIMITS.map(([limit, value, beyond]) => `| ${limit} | ${value} | ${beyond} |`);
  return ['| limit | value | beyond it |', '|---|---|---|', ...rows].join('\n');
}
