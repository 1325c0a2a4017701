/**
 * Assembles the metrics for Prometheus. Names and units follow the conventions of Prometheus; no label has a value that
 * a client sent, which limits the number of series.
 */
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from '@prometheus-io/client';
import type { RequestHandler, Response } from 'express';
import { z } from 'zod';
import type { AgentReport } from '../../bpf/schema/agent_report.ts';
import { EVENTS } from '../../bpf/schema/index.ts';
import { LOSS_CAUSES } from '../../bpf/schema/losses.ts';
import { POSITION_FILE, SHIP_SOCKET, type ShipReport } from '../../bpf/schema/ship_report.ts';
import { ERRORS } from '../base/problem.ts';
import { STATES } from '../contract/transitions.ts';
import { CLOSE_REASONS, type CloseReason } from '../http/access/connections.ts';
import type { EndedRequest } from '../http/request_log.ts';
import type { Sessions } from '../replay/session/sessions.ts';
import { type FleetState, LAG_QUANTILES } from '../store/fleet_state.ts';
import type { RecordingState, Store } from '../store/store.ts';
import { askAgent, findAgentSocket } from './agent_report.ts';
import { askSocket, count, durations } from './asked_socket.ts';
import { describeAgent } from './recording_agent.ts';
import { createReportedHistogram } from './reported_histogram.ts';

/**
 * Interval at which the Prometheus client samples the event loop. Its defaults of 10 and 100 ms cost an idle daemon
 * half a percent of a CPU.
 */
const LOOK_MS = 60_000;

/**
 * Metrics of the Prometheus client that are removed: `promtool check metrics` rejects their names, or an interval of
 * LOOK_MS gives them too few samples.
 */
const UNWANTED = [
  'nodejs_active_handles_total',
  'nodejs_active_requests_total',
  'nodejs_active_resources_total',
  'nodejs_eventloop_utilization_histogram',
  'nodejs_eventloop_utilization_summary',
  ...['min', 'max', 'mean', 'stddev', 'p50', 'p90', 'p99'].map((name) => `nodejs_eventloop_lag_${name}_seconds`),
];

/** Sources that are read on each scrape. */
export interface MetricSources {
  store: Store;
  sessions: Sessions;
  /** Wall clock in nanoseconds since the epoch. */
  now: () => bigint;
  /** The data folder, or a recording in it. The metrics of its agent are requested. */
  data: string | undefined;
  /** State folder of a shipper on this host. The metrics of the shipper are requested. */
  shipState?: string | undefined;
}

/** The description of a metric in daemon/docs/operate.md. */
export interface MetricDescription {
  name: string;
  help: string;
  labelNames: readonly string[];
}

export interface Metrics {
  readonly contentType: string;
  readonly watchStreams: RequestHandler;
  requestEnded(request: EndedRequest): void;
  countClosedConnection(reason: CloseReason): void;
  watchUnsent(unsent: { readonly bytes: number }): void;
  /** Records the lateness of an event that a replay has just played. */
  recordLateness(latenessNs: number): void;
  /** Records how long the server of a fleet took to execute a statement. */
  recordFleetQuery(seconds: number): void;
  collectText(sources: MetricSources): Promise<string>;
  /** Describes kreplay's own metrics. */
  describeMetrics(): MetricDescription[];
}

export function createMetrics(): Metrics {
  const registry = new Registry();
  const http = createHttpMetrics(registry);
  const connections = createConnectionMetrics(registry);
  const replay = createReplayMetrics(registry);
  const recordings = createRecordingMetrics(registry);
  const agent = createAgentMetrics(registry);
  const ship = shipMetrics(registry);
  const fleet = createFleetMetrics(registry);
  buildInfo(registry);
  collectDefaultMetrics({
    register: registry,
    eventLoopMonitoringPrecision: LOOK_MS,
    eventLoopUtilizationTimeout: LOOK_MS,
  });
  for (const name of UNWANTED) registry.removeSingleMetric(name);
  let scrape: Promise<string> | undefined;

  async function collect({ store, sessions, now, data, shipState }: MetricSources): Promise<string> {
    const answer = data === undefined ? undefined : await askAgent(findAgentSocket(data));
    agent.set(answer === 'silent' ? undefined : answer);
    ship.set(shipState === undefined ? undefined : await readShippingState(shipState));
    const state = await readFleetState(store);
    fleet.set(state);
    const states = store.fleet && !state?.nodes ? undefined : await readStates(store);
    const unreadable = await store.listUnreadable();
    recordings.set(states, now(), answer, unreadable.length);
    replay.set(sessions);
    http.set();
    return registry.metrics();
  }

  return {
    contentType: registry.contentType,
    watchStreams: http.watchStreams,
    requestEnded: http.recordEnded,
    countClosedConnection: connections.closed,
    watchUnsent: connections.watchUnsent,
    recordLateness: replay.played,
    recordFleetQuery: fleet.queried,
    describeMetrics: () => (registry.getMetricsAsArray() as unknown as MetricDescription[]).filter(isOurs),
    /**
     * Collects all metrics. Concurrent requests share one scrape, because the metrics can be set for only one scrape at
     * a time.
     */
    collectText(sources) {
      scrape ??= collect(sources).finally(() => {
        scrape = undefined;
      });
      return scrape;
    },
  };
}

function isOurs({ name }: MetricDescription): boolean {
  return name.startsWith('kreplay_');
}

/**
 * Resolves to undefined if a recording is unreadable. The metric `kreplay_ready` reports that failure, which must not
 * hide the other metrics.
 */
async function readStates(store: Store): Promise<RecordingState[] | undefined> {
  try {
    return await store.listRecordingStates();
  } catch {
    return undefined;
  }
}

/** Resolves to undefined if there is no fleet or its server does not answer. */
async function readFleetState({ fleet }: Store): Promise<FleetState | undefined> {
  try {
    return await fleet?.readState();
  } catch {
    return undefined;
  }
}

function buildInfo(registry: Registry): void {
  const { version } = JSON.parse(readFileSync(createRequire(import.meta.url).resolve('#package'), 'utf8'));
  new Gauge({
    name: 'kreplay_build_info',
    help: 'Always 1; which kreplay answers, and the Node.js that runs it.',
    labelNames: ['version', 'node_version'],
    registers: [registry],
  }).set({ version, node_version: process.version }, 1);
}

/*
 * Metrics that the agent of the data folder reports. Its counts start at 0 when the agent starts; without an agent,
 * there are no such metrics.
 */

/** Type label of a lost definition, or of lost events that may be of any type. */
const ANY_TYPE = 'any';

function createAgentMetrics(registry: Registry) {
  const registers = [registry];
  const createGauge = (name: string, help: string) => new Gauge({ name, help, labelNames: ['node'], registers });
  const createCounter = (name: string, help: string, ...labelNames: string[]) =>
    new Counter({ name, help, labelNames: ['node', ...labelNames], registers });
  const up = new Gauge({
    name: 'kreplay_agent_up',
    help: '1 when the agent of the data folder answers.',
    registers,
  });
  const startTime = createGauge('kreplay_agent_start_time_seconds', 'When the agent started.');
  const cpu = createCounter('kreplay_agent_cpu_seconds_total', 'CPU time of the agent.');
  const memory = createGauge('kreplay_agent_resident_memory_bytes', 'Memory that the agent holds.');
  const ringSize = createGauge(
    'kreplay_agent_ring_size_bytes',
    'What each event ring can hold: --ring-size, divided by the number of rings.',
  );
  const ringPending = createGauge('kreplay_agent_ring_pending_bytes', 'What waits in the fullest event ring just now.');
  const ringPeak = createGauge(
    'kreplay_agent_ring_peak_bytes',
    'The most that waited in one event ring in the last minute.',
  );
  const unsynced = createGauge(
    'kreplay_agent_unsynced_seconds',
    'Age of the oldest commit that is not known to be on the disk: a loss of power takes what came since.',
  );
  const recorded = createCounter('kreplay_events_recorded_total', 'Events that were recorded, by type.', 'event_type');
  const lost = createCounter(
    'kreplay_events_lost_total',
    'Events and definitions that were lost, by cause and, where it is known, type.',
    ...['cause', 'event_type'],
  );
  const commits = createReportedHistogram(
    registry,
    'kreplay_agent_commit_duration_seconds',
    'How long the agent took to commit what it had gathered to the recording.',
  );
  const all = [up, startTime, cpu, memory, ringSize, ringPending, ringPeak, unsynced, recorded, lost];
  return {
    set(report: AgentReport | undefined): void {
      for (const metric of all) metric.reset();
      commits.set(report?.node ?? '', report?.commits);
      if (!report) return;
      const { node, ring } = report;
      up.set(1);
      startTime.set({ node }, report.start_time_seconds);
      cpu.inc({ node }, report.cpu_seconds);
      memory.set({ node }, report.resident_bytes);
      ringSize.set({ node }, ring.size_bytes);
      ringPending.set({ node }, ring.pending_bytes);
      ringPeak.set({ node }, ring.peak_bytes);
      if (report.unsynced_seconds !== undefined) unsynced.set({ node }, report.unsynced_seconds);
      for (const [event_type, count] of Object.entries(report.recorded)) recorded.inc({ node, event_type }, count);
      // If a series appeared only with its first loss, increase() would not show that loss.
      for (const cause of Object.keys(LOSS_CAUSES))
        for (const event_type of [ANY_TYPE, ...EVENTS.map(({ name }) => name)])
          lost.inc({ node, cause, event_type }, 0);
      for (const { cause, event_type, count } of report.lost)
        lost.inc({ node, cause, event_type: event_type ?? ANY_TYPE }, count);
    },
  };
}

/*
 * Counts connections that the daemon closed by itself. The client sees only a reset, and the closure is not recorded
 * anywhere else.
 */

function createConnectionMetrics(registry: Registry) {
  const closed = new Counter({
    name: 'kreplay_connections_closed_total',
    help: `Connections that the daemon closed by itself: ${Object.entries(CLOSE_REASONS)
      .map(([reason, what]) => `${reason} (${what})`)
      .join(', ')}.`,
    labelNames: ['reason'],
    registers: [registry],
  });
  // Series start at 0, so that increase() also counts the first event.
  for (const reason of Object.keys(CLOSE_REASONS)) closed.inc({ reason }, 0);
  let unsentBytes = () => 0;
  new Gauge({
    name: 'kreplay_unsent_bytes',
    help: 'Memory of answers that their clients have not read yet, with what long answers need while they are sent.',
    registers: [registry],
    collect() {
      this.set(unsentBytes());
    },
  });
  return {
    closed: (reason: CloseReason): void => closed.inc({ reason }),
    watchUnsent(unsent: { readonly bytes: number }): void {
      unsentBytes = () => unsent.bytes;
    },
  };
}

/* Metrics of a fleet, for a daemon that serves one. They are totals over all nodes; there are no metrics per node. */

const QUERY_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

export function createFleetMetrics(registry: Registry) {
  const createGauge = (name: string, help: string, ...labelNames: string[]) =>
    new Gauge({ name: `kreplay_fleet_${name}`, help, labelNames, registers: [registry] });
  const nodes = createGauge(
    'nodes',
    'Nodes by state: current (heard within a minute), silent (not heard since), ended (ended, or silent for an hour).',
    'state',
  );
  const lag = createLagSummary(registry);
  const shards = createGauge('unavailable_shards', 'At least so many shards do not answer.');
  const parts = createGauge(
    'parts_max',
    'The most parts that an hour of a table has at the server that answers; servers delay inserts at 1000, and refuse them at 3000 (18.16: 150, 300).',
  );
  const disk = createGauge(
    'disk_free_ratio',
    'Free part of the fullest disk of the server that answers; not there with 18.16, which does not say.',
  );
  const oldest = createGauge(
    'oldest_timestamp_seconds',
    'Start of the oldest hour with events at the server that answers; not there without events.',
  );
  const queries = new Histogram({
    name: 'kreplay_fleet_query_duration_seconds',
    help: 'How long the server took for statements of this daemon, without those that copy transactions for replays.',
    buckets: QUERY_SECONDS,
    registers: [registry],
  });
  // The Prometheus client resets a metric without labels to 0, but here 0 would be a valid value.
  const single = [shards, parts, disk, oldest];
  return {
    queried: (seconds: number): void => queries.observe(seconds),
    /** Sets the metrics; `state` is undefined if the server does not answer, or if this daemon serves no fleet. */
    set(state: FleetState | undefined): void {
      nodes.reset();
      for (const metric of single) metric.remove();
      lag.set(state?.nodes?.lagNs ?? []);
      if (!state) return;
      for (const [name, count] of Object.entries(state.nodes?.counts ?? {})) nodes.set({ state: name }, count);
      shards.set(state.unavailableShards);
      parts.set(state.partsMax);
      if (state.oldestNs !== undefined) oldest.set(Number(state.oldestNs) / 1e9);
      if (state.diskFreeRatio !== undefined) disk.set(state.diskFreeRatio);
    },
  };
}

/**
 * Creates a summary of quantiles over nodes, which the server has computed; the summaries of the Prometheus client
 * compute quantiles over time.
 */
function createLagSummary(registry: Registry) {
  const name = 'kreplay_fleet_lag_seconds';
  const help = 'How far the events of current nodes are behind their clocks, as a quantile over these nodes.';
  let values: { labels: { quantile: string }; value: number }[] = [];
  registry.registerMetric({
    name,
    help,
    labelNames: ['quantile'],
    get: async () => ({ name, help, type: 'summary', values }),
  } as never);
  return {
    set(lagNs: readonly bigint[]): void {
      values = lagNs.map((ns, i) => ({ labels: { quantile: LAG_QUANTILES[i]! }, value: Number(ns) / 1e9 }));
    },
  };
}

/* Metrics of answers: their durations, and the number of streams in progress. */

const REQUEST_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];

/** Maps the media type of a streamed answer to its label in the metric. */
const STREAMS: Readonly<Record<string, string>> = {
  'text/event-stream': 'server_sent_events',
  'application/x-ndjson': 'ndjson',
  'application/vnd.kreplay.columns': 'columns',
};

function createHttpMetrics(registry: Registry) {
  const durations = new Histogram({
    name: 'kreplay_http_request_duration_seconds',
    help: 'From a request to the end of its answer, by the pattern of its route; server-sent events are not in it.',
    labelNames: ['method', 'route', 'status'],
    buckets: REQUEST_SECONDS,
    registers: [registry],
  });
  const problems = new Counter({
    name: 'kreplay_http_problems_total',
    help: 'Answers that were an error, by the code of its problem document.',
    labelNames: ['code'],
    registers: [registry],
  });
  // Series start at 0, so that increase() also counts the first event.
  for (const code of Object.keys(ERRORS)) problems.inc({ code }, 0);
  const open = new Gauge({
    name: 'kreplay_open_streams',
    help: 'Streamed answers that are under way, by kind.',
    labelNames: ['kind'],
    registers: [registry],
  });
  const answers = new Set<Response>();

  const watchStreams: RequestHandler = (_req, res, next) => {
    answers.add(res);
    res.once('close', () => answers.delete(res));
    next();
  };

  return {
    watchStreams,
    recordEnded({ method, route, status, code, seconds, isLive }: EndedRequest): void {
      if (code !== undefined) problems.inc({ code });
      if (!isLive) durations.observe({ method, route, status }, seconds);
    },
    set(): void {
      const kinds = [...answers].map((res) => STREAMS[readMediaType(res)]);
      for (const kind of Object.values(STREAMS)) open.set({ kind }, kinds.filter((one) => one === kind).length);
    },
  };
}

function readMediaType(res: Response): string {
  return String(res.headersSent ? res.getHeader('content-type') : '').split(';')[0]!;
}

/*
 * Metrics of recordings. Files with the same node and source are added up, because the number of imports is unlimited.
 */

export function createRecordingMetrics(registry: Registry) {
  const createGauge = (name: string, help: string, ...labelNames: string[]) =>
    new Gauge({ name, help, labelNames, registers: [registry] });
  const ready = createGauge(
    'kreplay_ready',
    '1 when every recording that is served can be read, or the fleet, as /readyz reports.',
  );
  const unreadable = createGauge(
    'kreplay_unreadable_imports',
    'Imported files that cannot be read, and that the others are served without; /readyz names them.',
  );
  const createFilesGauge = (name: string, help: string) =>
    createGauge(`kreplay_recording_${name}`, help, 'node', 'source');
  const size = createFilesGauge('size_bytes', 'Recordings with their logs.');
  const limit = createFilesGauge(
    'limit_bytes',
    'What --retain-bytes lets a recording take; not there without a limit.',
  );
  const events = createFilesGauge('events', 'Events that the recordings hold now.');
  const oldest = createFilesGauge('oldest_event_timestamp_seconds', 'Start of the oldest event that is held.');
  const newest = createFilesGauge('last_event_timestamp_seconds', 'Start of the newest event that is held.');
  const lost = createGauge(
    'kreplay_recording_lost_events',
    'Events that the recordings miss, as the coverage of an answer reports; shrinks as notes get too old to matter.',
    ...['node', 'source', 'cause'],
  );
  const recording = createGauge('kreplay_agent_recording', '1 while an agent records into the data folder.', 'node');
  const alive = createGauge(
    'kreplay_agent_alive_timestamp_seconds',
    'Until when an agent is known to have recorded into the data folder.',
    'node',
  );
  const ofRecordings = [size, limit, events, oldest, newest, lost, recording, alive];

  return {
    /** Sets the metrics; `states` is undefined if the recordings cannot be read. */
    set(
      states: readonly RecordingState[] | undefined,
      nowNs: bigint,
      answer?: AgentReport | 'silent',
      unreadableCount = 0,
    ): void {
      unreadable.set(unreadableCount);
      for (const metric of ofRecordings) metric.reset();
      ready.set(states ? 1 : 0);
      const groups = Map.groupBy(states ?? [], ({ node, source }) => JSON.stringify([node, source]));
      for (const group of groups.values()) {
        const { node, source } = group[0]!;
        const labels = { node, source };
        const firsts = selectNumbers(group, ({ firstTimestampNs }) => firstTimestampNs);
        const lasts = selectNumbers(group, ({ lastTimestampNs }) => lastTimestampNs);
        const limits = selectNumbers(group, ({ limitBytes }) => limitBytes);
        size.set(labels, sum(group.map(({ sizeBytes }) => sizeBytes)));
        events.set(labels, sum(group.map(({ eventCount }) => eventCount)));
        if (limits.length > 0) limit.set(labels, sum(limits));
        if (firsts.length > 0) oldest.set(labels, Math.min(...firsts) / 1e9);
        if (lasts.length > 0) newest.set(labels, Math.max(...lasts) / 1e9);
        const notes = group.flatMap((state) => state.lost);
        for (const cause of Object.keys(LOSS_CAUSES))
          lost.set({ ...labels, cause }, sum(notes.filter((note) => note.cause === cause).map(({ count }) => count)));
      }
      for (const state of states ?? []) {
        if (state.source !== 'live') continue;
        const agent = describeAgent(state, nowNs, answer);
        recording.set({ node: state.node }, agent.state === 'recording' ? 1 : 0);
        if (agent.aliveNs !== null) alive.set({ node: state.node }, Number(agent.aliveNs) / 1e9);
      }
    },
  };
}

function selectNumbers(
  states: readonly RecordingState[],
  of: (state: RecordingState) => bigint | number | null,
): number[] {
  return states
    .map(of)
    .filter((value) => value !== null)
    .map(Number);
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

/* Metrics of replay: the number of sessions, and the lateness of their events. */

const LATENESS_SECONDS = [0.00001, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 1];

function createReplayMetrics(registry: Registry) {
  const count = new Gauge({
    name: 'kreplay_replay_sessions',
    help: 'Replay sessions, by state.',
    labelNames: ['state'],
    registers: [registry],
  });
  const lateness = new Histogram({
    name: 'kreplay_replay_lateness_seconds',
    help: 'How much later than its deadline an event was played.',
    buckets: LATENESS_SECONDS,
    registers: [registry],
  });
  const kept = new Gauge({
    name: 'kreplay_replay_sessions_kept',
    help: '1 when changes of sessions are written where they outlive the daemon, 0 when they cannot be; not there without such a file.',
    registers: [registry],
  });
  return {
    played: (latenessNs: number): void => lateness.observe(latenessNs / 1e9),
    set({ list, keeping }: Pick<Sessions, 'list' | 'keeping'>): void {
      const sessions = list();
      for (const state of STATES) count.set({ state }, sessions.filter((session) => session.state === state).length);
      if (keeping.kept) kept.set(keeping.failure === null ? 1 : 0);
      else kept.remove();
    },
  };
}

/*
 * Metrics that this node's `kreplay ship` reports. Its counts start at 0 when the process starts; without the process,
 * there are no such metrics.
 */

/** Validates only the fields that are used, because a newer shipper may report more fields. */
const shipReport: z.ZodType<Omit<ShipReport, 'start_time_seconds'>> = z.object({
  node: z.string().nullable(),
  events: count,
  unshipped: count,
  wire_bytes: count,
  backlog: z.object({ events: count, seconds: count }),
  trouble: z.object({ code: z.string(), blocked: z.boolean(), message: z.string() }).nullable(),
  retries: z.record(z.string(), count),
  inserts: durations,
  clock_offset_seconds: z.number().nullable(),
});

interface ShippingState {
  /** Whether a shipper runs here or has shipped events before. */
  ships: boolean;
  report: z.infer<typeof shipReport> | undefined;
}

/**
 * Requests the report of the shipper whose state is in this folder. A shipper that is missing, hangs or sends nonsense
 * counts as absent.
 */
async function readShippingState(folder: string): Promise<ShippingState> {
  const answer = await askSocket(join(folder, SHIP_SOCKET), shipReport);
  const report = answer === 'silent' ? undefined : answer;
  return { ships: report !== undefined || existsSync(join(folder, POSITION_FILE)), report };
}

function shipMetrics(registry: Registry) {
  const registers = [registry];
  const createGauge = (name: string, help: string) =>
    new Gauge({ name: `kreplay_ship_${name}`, help, labelNames: ['node'], registers });
  const createCounter = (name: string, help: string, ...labelNames: string[]) =>
    new Counter({ name: `kreplay_ship_${name}`, help, labelNames: ['node', ...labelNames], registers });
  const up = new Gauge({
    name: 'kreplay_ship_up',
    help: '1 when `kreplay ship` of this node answers, 0 when it has shipped and does not; not there on a node that never shipped.',
    registers,
  });
  const events = createCounter('events_total', 'Events that have arrived at the fleet.');
  const unshipped = createCounter(
    'unshipped_events_total',
    'Events that were recorded and will not arrive: removed, or damaged, before they were sent.',
  );
  const bytes = createCounter(
    'wire_bytes_total',
    'Bytes of rows that were sent, packed, and again where they were repeated.',
  );
  const waiting = createGauge('backlog_events', 'Events that are sealed and have not arrived.');
  const waitingSeconds = createGauge(
    'backlog_seconds',
    'Age of the oldest event that has not arrived; 0 when none waits.',
  );
  const blocked = createGauge('blocked', '1 when nothing arrives until an operator acts; the log says what to do.');
  const retries = createCounter('retries_total', 'Failures after which the same was sent again, by code.', 'code');
  const offset = createGauge('clock_offset_seconds', "The server's clock minus the node's, as last measured.");
  const inserts = createReportedHistogram(
    registry,
    'kreplay_ship_insert_duration_seconds',
    'How long a group of events took until it had arrived in all tables.',
  );
  const all = [events, unshipped, bytes, waiting, waitingSeconds, blocked, retries, offset];
  return {
    /** Sets the metrics; `state` is undefined if this daemon is not configured to monitor a shipper. */
    set(state: ShippingState | undefined): void {
      for (const metric of all) metric.reset();
      const { ships = false, report } = state ?? {};
      if (ships) up.set(report ? 1 : 0);
      else up.remove();
      const node = report?.node ?? undefined;
      inserts.set(node ?? '', node === undefined ? undefined : report?.inserts);
      if (!report || node === undefined) return;
      events.inc({ node }, report.events);
      unshipped.inc({ node }, report.unshipped);
      bytes.inc({ node }, report.wire_bytes);
      waiting.set({ node }, report.backlog.events);
      waitingSeconds.set({ node }, report.backlog.seconds);
      blocked.set({ node }, report.trouble?.blocked ? 1 : 0);
      for (const [code, failures] of Object.entries(report.retries)) retries.inc({ node, code }, failures);
      if (report.clock_offset_seconds !== null) offset.set({ node }, report.clock_offset_seconds);
    },
  };
}
