/**
 * Tests the alert rules and the dashboard: they name existing metrics, and the rules fire when they should, not before.
 */
import { spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { Registry } from '@prometheus-io/client';
import { createFleetMetrics } from '../../../daemon/metrics/metrics.ts';
import { newFolder, recorded, START } from '../recorded.ts';
import { served } from '../served.ts';
import { samplesOf } from './scraped.ts';

const ALERTS = join(import.meta.dirname, '../../../daemon/metrics/alerts.yml');
const DASHBOARD = join(import.meta.dirname, '../../../daemon/metrics/grafana_dashboard.json');

/** Report of an agent that has recorded and lost events. */
const REPORT = {
  node: 'n',
  start_time_seconds: 1,
  cpu_seconds: 1,
  resident_bytes: 1,
  ring: { count: 1, size_bytes: 1, pending_bytes: 1, peak_bytes: 1 },
  recorded: { sys_write: 1 },
  lost: [],
  commits: { bounds_seconds: [1], counts: [1, 0], sum_seconds: 1 },
};

/** Report of a shipper, whose server had an error. */
const SHIP_REPORT = {
  node: 'n',
  events: 1,
  unshipped: 0,
  wire_bytes: 1,
  backlog: { events: 1, seconds: 1 },
  trouble: null,
  retries: { '242': 1 },
  inserts: { bounds_seconds: [1], counts: [1, 0], sum_seconds: 1 },
  clock_offset_seconds: 0,
};

/** A state that only a newer server has in full. */
const FLEET_STATE = {
  nodes: { counts: { current: 1, silent: 0, ended: 0 }, lagNs: [1n, 1n, 1n, 1n] },
  unavailableShards: 0,
  partsMax: 1,
  oldestNs: START,
  diskFreeRatio: 0.5,
};

async function scrapedText(): Promise<string> {
  const folder = recorded([{ at: START }]);
  const answering = async (name: string, report: object) => {
    const service = createServer((socket) => socket.end(JSON.stringify(report))).listen(join(folder, name));
    await once(service, 'listening');
    return service;
  };
  const services = [await answering('agent.sock', REPORT), await answering('ship.sock', SHIP_REPORT)];
  const one = await served(folder, { stateFile: join(folder, 'sessions.sqlite'), shipState: folder });
  // The second scrape counts the first.
  await one.get('/metrics');
  const { text } = await one.get('/metrics');
  for (const service of services) service.close();
  return text;
}

/** What a daemon of a fleet has besides. */
async function fleetText(): Promise<string> {
  const registry = new Registry();
  const metrics = createFleetMetrics(registry);
  metrics.set(FLEET_STATE);
  metrics.queried(0.1);
  return registry.metrics();
}

function alertExpressions(): string[] {
  return [...readFileSync(ALERTS, 'utf8').matchAll(/^ +expr: (.+)$/gm)].map(([, expression]) => expression!);
}

interface Dashboard {
  panels: { title: string; id: number; targets: { expr: string }[] }[];
  templating: { list: { type: string; query: string }[] };
}

function dashboardExpressions(): string[] {
  const { panels, templating } = JSON.parse(readFileSync(DASHBOARD, 'utf8')) as Dashboard;
  const queries = templating.list.filter(({ type }) => type === 'query').map(({ query }) => query);
  return [...panels.flatMap(({ targets }) => targets.map(({ expr }) => expr)), ...queries];
}

const KEYWORDS = new Set(['and', 'or', 'unless', 'bool', 'offset', 'node']);

/** Metrics and labels in a PromQL expression: in selectors, after metrics without one, and in label lists. */
function namesIn(expression: string): { metrics: string[]; labels: string[] } {
  const bare = expression.replaceAll(/"(?:[^"\\]|\\.)*"/g, '""').replaceAll(/\[[^\]]*\]/g, '');
  const lists = [...bare.matchAll(/\b(?:by|without|on|ignoring)\s*\(([^)]*)\)/g)].map(([, list]) => list!);
  const selectors = [...bare.matchAll(/\{([^}]*)\}/g)].map(([, selector]) => selector!);
  const labels = [
    ...lists.flatMap((list) => list.split(',')),
    ...selectors.flatMap((one) => one.match(/\w+(?=\s*[=!])/g) ?? []),
  ];
  const rest = bare.replaceAll(/\b(?:by|without|on|ignoring)\s*\([^)]*\)/g, '').replaceAll(/\{[^}]*\}/g, '');
  const metrics = (rest.match(/\b[a-z_]\w*\b(?!\s*\()/g) ?? []).filter((name) => !KEYWORDS.has(name));
  return { metrics, labels: labels.map((label) => label.trim()) };
}

/** Metrics and labels that Prometheus adds to every series or produces itself. */
const ADDED = { metrics: ['up'], labels: ['instance', 'job'] };

test('metric names are found in PromQL', () => {
  const expression = 'a{x=~"b{}", y!="$c"} / on (z) sum by (w, v) (rate(d_total[$__range])) > 0.5 and e == 0';
  expect(namesIn(expression)).toEqual({ metrics: ['a', 'd_total', 'e'], labels: ['z', 'w', 'v', 'x', 'y'] });
});

test('every metric and label that rules and panels name is exported', async () => {
  const samples = [...samplesOf(await scrapedText()), ...samplesOf(await fleetText())];
  const metrics = new Set([...ADDED.metrics, ...samples.map(({ name }) => name)]);
  const labels = new Set([...ADDED.labels, ...samples.flatMap((sample) => Object.keys(sample.labels))]);
  const expressions = [...alertExpressions(), ...dashboardExpressions()];
  expect(expressions.length).toBeGreaterThan(25);
  for (const names of expressions.map(namesIn)) {
    expect(names.metrics.length).toBeGreaterThan(0);
    expect(names.metrics.filter((name) => !metrics.has(name))).toEqual([]);
    expect(names.labels.filter((name) => !labels.has(name))).toEqual([]);
  }
});

test('panels have unique titles and ids', () => {
  const { panels } = JSON.parse(readFileSync(DASHBOARD, 'utf8')) as Dashboard;
  for (const key of ['id', 'title'] as const)
    expect(new Set(panels.map((panel) => panel[key])).size).toBe(panels.length);
});

function promtool(args: readonly string[], input = ''): void {
  const { status, stdout, stderr } = spawnSync('promtool', args, { input, encoding: 'utf8' });
  expect([status, status === 0 ? '' : stdout + stderr]).toEqual([0, '']);
}

test('promtool accepts the rules and the metrics', async () => {
  promtool(['check', 'rules', ALERTS]);
  promtool(['check', 'metrics'], await scrapedText());
  promtool(['check', 'metrics'], await fleetText());
});

const AGENT = 'instance="i", job="kreplay", node="n"';
const RECORDING = 'instance="i", job="kreplay", node="n", source="live"';
const FLEET = 'instance="centre", job="kreplay"';

/** Series with one sample a minute, and the alerts that fire at minute 15. */
const CASES: [name: string, series: Record<string, string>, alerts: string[]][] = [
  [
    'all is well',
    {
      'up{instance="i", job="kreplay"}': '1x15',
      'kreplay_ready{instance="i", job="kreplay"}': '1x15',
      [`kreplay_agent_recording{${AGENT}}`]: '1x15',
      [`kreplay_events_lost_total{${AGENT}, cause="ring_full", event_type="any"}`]: '7x15',
      [`kreplay_agent_ring_peak_bytes{${AGENT}}`]: '10x15',
      [`kreplay_agent_ring_size_bytes{${AGENT}}`]: '100x15',
      [`kreplay_recording_size_bytes{${RECORDING}}`]: '99x15',
      [`kreplay_recording_limit_bytes{${RECORDING}}`]: '100x15',
      [`kreplay_recording_lost_events{${RECORDING}, cause="retention"}`]: '5000x15',
      [`kreplay_recording_lost_events{${RECORDING}, cause="damaged"}`]: '0x15',
      [`kreplay_agent_commit_duration_seconds_bucket{${AGENT}, le="0.1"}`]: '0+10x15',
      [`kreplay_agent_commit_duration_seconds_bucket{${AGENT}, le="+Inf"}`]: '0+10x15',
      'kreplay_ship_up{instance="i", job="kreplay"}': '1x15',
      [`kreplay_ship_blocked{${AGENT}}`]: '0x15',
      [`kreplay_ship_backlog_events{${AGENT}}`]: '100x15',
      [`kreplay_recording_events{${RECORDING}}`]: '1000000x15',
      [`kreplay_ship_unshipped_events_total{${AGENT}}`]: '500x15',
      [`kreplay_ship_clock_offset_seconds{${AGENT}}`]: '-0.4x15',
      [`kreplay_fleet_nodes{${FLEET}, state="current"}`]: '90x15',
      [`kreplay_fleet_nodes{${FLEET}, state="silent"}`]: '0x15',
      [`kreplay_fleet_nodes{${FLEET}, state="ended"}`]: '7x15',
      [`kreplay_fleet_unavailable_shards{${FLEET}}`]: '0x15',
      [`kreplay_fleet_parts_max{${FLEET}}`]: '40x15',
      [`kreplay_fleet_disk_free_ratio{${FLEET}}`]: '0.3x15',
    },
    [],
  ],
  ['the daemon is gone', { 'up{instance="i", job="kreplay"}': '1x5 0x10' }, ['KreplayDown']],
  ['a recording is unreadable', { 'kreplay_ready{instance="i"}': '1x5 0x10' }, ['KreplayNotReady']],
  ['the agent is gone', { [`kreplay_agent_recording{${AGENT}}`]: '1x5 0x10' }, ['KreplayNotRecording']],
  [
    'an event is lost, the first of its kind',
    { [`kreplay_events_lost_total{${AGENT}, cause="ring_full", event_type="sys_write"}`]: '0x13 1x2' },
    ['KreplayLosesEvents'],
  ],
  [
    'an event was lost long ago, and the agent was started again',
    { [`kreplay_events_lost_total{${AGENT}, cause="ring_full", event_type="sys_write"}`]: '0x2 1x9 0x4' },
    [],
  ],
  [
    'a client is turned away, and another one makes room as it should',
    {
      'kreplay_connections_closed_total{instance="i", reason="turned_away"}': '0x13 1x2',
      'kreplay_connections_closed_total{instance="i", reason="made_room"}': '0+1x15',
    },
    ['KreplayTurnsClientsAway'],
  ],
  [
    'wrong tokens come faster than they may',
    {
      'kreplay_http_problems_total{instance="i", code="too_many_attempts"}': '0x13 1x2',
      'kreplay_http_problems_total{instance="i", code="unauthorized"}': '0+1x15',
    },
    ['KreplayTokensGuessed'],
  ],
  [
    'the ring is nearly full',
    { [`kreplay_agent_ring_peak_bytes{${AGENT}}`]: '90x15', [`kreplay_agent_ring_size_bytes{${AGENT}}`]: '100x15' },
    ['KreplayRingNearlyFull'],
  ],
  [
    'commits are slow',
    {
      [`kreplay_agent_commit_duration_seconds_bucket{${AGENT}, le="0.5"}`]: '0+1x15',
      [`kreplay_agent_commit_duration_seconds_bucket{${AGENT}, le="1"}`]: '0+10x15',
      [`kreplay_agent_commit_duration_seconds_bucket{${AGENT}, le="+Inf"}`]: '0+10x15',
    },
    ['KreplayCommitsSlow'],
  ],
  [
    'the recording comes near its limit',
    {
      [`kreplay_recording_size_bytes{${RECORDING}}`]: '95x15',
      [`kreplay_recording_limit_bytes{${RECORDING}}`]: '100x15',
      [`kreplay_recording_lost_events{${RECORDING}, cause="retention"}`]: '0x15',
    },
    ['KreplayRecordingNearLimit'],
  ],
  [
    'pins take more than the limit',
    {
      [`kreplay_recording_size_bytes{${RECORDING}}`]: '120x15',
      [`kreplay_recording_limit_bytes{${RECORDING}}`]: '100x15',
    },
    ['KreplayRecordingOverLimit'],
  ],
  [
    'sessions cannot be kept',
    { 'kreplay_replay_sessions_kept{instance="i", job="kreplay"}': '1x5 0x10' },
    ['KreplaySessionsNotKept'],
  ],
  [
    'a part is damaged',
    { [`kreplay_recording_lost_events{${RECORDING}, cause="damaged"}`]: '4x15' },
    ['KreplayRecordingDamaged'],
  ],
  [
    'an import cannot be read',
    { 'kreplay_unreadable_imports{instance="i", job="kreplay"}': '0x5 1x10' },
    ['KreplayImportUnreadable'],
  ],
  ['the shipper is gone', { 'kreplay_ship_up{instance="i", job="kreplay"}': '1x5 0x10' }, ['KreplayNotShipping']],
  ['shipping is blocked', { [`kreplay_ship_blocked{${AGENT}}`]: '0x5 1x10' }, ['KreplayShippingBlocked']],
  [
    'the backlog takes most of the recording',
    {
      [`kreplay_ship_backlog_events{${AGENT}}`]: '700x15',
      [`kreplay_recording_events{${RECORDING}}`]: '1000x15',
      [`kreplay_recording_size_bytes{${RECORDING}}`]: '80x15',
      [`kreplay_recording_limit_bytes{${RECORDING}}`]: '100x15',
    },
    ['KreplayBacklogTooLarge'],
  ],
  [
    'nothing was shipped of a recording that has much room',
    {
      [`kreplay_ship_backlog_events{${AGENT}}`]: '1000x15',
      [`kreplay_recording_events{${RECORDING}}`]: '1000x15',
      [`kreplay_recording_size_bytes{${RECORDING}}`]: '10x15',
      [`kreplay_recording_limit_bytes{${RECORDING}}`]: '100x15',
    },
    [],
  ],
  [
    'events were removed before they were shipped',
    { [`kreplay_ship_unshipped_events_total{${AGENT}}`]: '0x13 4000x2' },
    ['KreplayEventsUnshipped'],
  ],
  ['a clock is behind', { [`kreplay_ship_clock_offset_seconds{${AGENT}}`]: '-3x15' }, ['KreplayClockApart']],
  ['nodes are silent', { [`kreplay_fleet_nodes{${FLEET}, state="silent"}`]: '0x5 2x10' }, ['KreplayNodesSilent']],
  ['a shard is away', { [`kreplay_fleet_unavailable_shards{${FLEET}}`]: '0x5 1x10' }, ['KreplayShardUnavailable']],
  ['merges do not keep up', { [`kreplay_fleet_parts_max{${FLEET}}`]: '1200x15' }, ['KreplayTooManyParts']],
  ['a server is nearly full', { [`kreplay_fleet_disk_free_ratio{${FLEET}}`]: '0.05x15' }, ['KreplayFleetDiskFull']],
];

test('every rule has a case in which it fires', () => {
  const rules = [...readFileSync(ALERTS, 'utf8').matchAll(/- alert: (\w+)/g)].map(([, name]) => name);
  expect(CASES.flatMap(([, , alerts]) => alerts).sort()).toEqual(rules.sort());
});

test.each(CASES)('%s', (name, series, alerts) => {
  const values = Object.entries(series).map(([one, text]) => ({ series: one, values: text }));
  const rules = [...readFileSync(ALERTS, 'utf8').matchAll(/- alert: (\w+)/g)].map(([, rule]) => rule!);
  // Only the number of firing alerts per rule is compared, not their labels and texts.
  const promql_expr_test = rules.map((rule) => ({
    expr: `count(ALERTS{alertname="${rule}", alertstate="firing"}) or vector(0)`,
    eval_time: '15m',
    exp_samples: [{ labels: '{}', value: alerts.includes(rule) ? 1 : 0 }],
  }));
  // promtool reads YAML, and every JSON document is YAML.
  const file = join(newFolder(), 'test.json');
  const tests = [{ name, interval: '1m', input_series: values, promql_expr_test }];
  writeFileSync(file, JSON.stringify({ rule_files: [ALERTS], evaluation_interval: '1m', tests }));
  promtool(['test', 'rules', file]);
});
