/**
 * Assembles the metrics for Prometheus. Names and units follow its conventions; no label has a value that a client
 * sent.
 */
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { collectDefaultMetrics, Gauge, Registry } from '@prometheus-io/client';
import type { RequestHandler } from 'express';
import type { CloseReason } from '../http/access/connections.ts';
import type { EndedRequest } from '../http/request_log.ts';
import type { Sessions } from '../replay/session/sessions.ts';
import type { FleetState } from '../store/fleet_state.ts';
import type { RecordingState, Store } from '../store/store.ts';
import { agentMetrics } from './agent_metrics.ts';
import { agentSocketIn, askAgent } from './agent_report.ts';
import { connectionMetrics } from './connection_metrics.ts';
import { fleetMetrics } from './fleet_metrics.ts';
import { httpMetrics } from './http_metrics.ts';
import { recordingMetrics } from './recording_metrics.ts';
import { replayMetrics } from './replay_metrics.ts';
import { shipMetrics, shippingState } from './ship_metrics.ts';

/**
 * The library samples the event loop every 10 and 100 ms by default, which costs an idle daemon half a percent of a
 * CPU.
 */
const LOOK_MS = 60_000;

/**
 * Metrics of the library that are removed: `promtool check metrics` rejects their names, or so few samples mean
 * nothing.
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
  /** The data folder, or a recording in it, whose agent is asked for its metrics. */
  data: string | undefined;
  /** State folder of a shipper on this host, which is asked for its metrics. */
  shipState?: string | undefined;
}

/** The description of a metric in the README. */
export interface MetricDescription {
  name: string;
  help: string;
  labelNames: readonly string[];
}

export interface Metrics {
  readonly contentType: string;
  readonly watchStreams: RequestHandler;
  requestEnded(request: EndedRequest): void;
  connectionClosed(reason: CloseReason): void;
  watchUnsent(unsent: { readonly bytes: number }): void;
  /** Records the lateness of an event that a replay has just played. */
  played(latenessNs: number): void;
  /** Records how long the server of a fleet took for a statement. */
  queriedFleet(seconds: number): void;
  text(sources: MetricSources): Promise<string>;
  /** Describes the metrics of kreplay itself. */
  described(): MetricDescription[];
}

export function createMetrics(): Metrics {
  const registry = new Registry();
  const http = httpMetrics(registry);
  const connections = connectionMetrics(registry);
  const replay = replayMetrics(registry);
  const recordings = recordingMetrics(registry);
  const agent = agentMetrics(registry);
  const ship = shipMetrics(registry);
  const fleet = fleetMetrics(registry);
  buildInfo(registry);
  collectDefaultMetrics({
    register: registry,
    eventLoopMonitoringPrecision: LOOK_MS,
    eventLoopUtilizationTimeout: LOOK_MS,
  });
  for (const name of UNWANTED) registry.removeSingleMetric(name);
  let scrape: Promise<string> | undefined;

  async function collect({ store, sessions, now, data, shipState }: MetricSources): Promise<string> {
    const answer = data === undefined ? undefined : await askAgent(agentSocketIn(data));
    agent.set(answer === 'silent' ? undefined : answer);
    ship.set(shipState === undefined ? undefined : await shippingState(shipState));
    const state = await fleetStateOf(store);
    fleet.set(state);
    const states = store.fleet && !state?.nodes ? undefined : await statesOf(store);
    const unreadable = await store.unreadable();
    recordings.set(states, now(), answer, unreadable.length);
    replay.set(sessions);
    http.set();
    return registry.metrics();
  }

  return {
    contentType: registry.contentType,
    watchStreams: http.watchStreams,
    requestEnded: http.ended,
    connectionClosed: connections.closed,
    watchUnsent: connections.watchUnsent,
    played: replay.played,
    queriedFleet: fleet.queried,
    described: () => (registry.getMetricsAsArray() as unknown as MetricDescription[]).filter(isOurs),
    /** Concurrent requests share one scrape, because the metrics are set for one at a time. */
    text(sources) {
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

/** Resolves to undefined if a recording cannot be read: that is itself a metric, and must not hide the others. */
async function statesOf(store: Store): Promise<RecordingState[] | undefined> {
  try {
    return await store.recordingStates();
  } catch {
    return undefined;
  }
}

/** Resolves to undefined without a fleet, and where its server does not answer. */
async function fleetStateOf({ fleet }: Store): Promise<FleetState | undefined> {
  try {
    return await fleet?.state();
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
