// Watches a real agent and a daemon from the start of the agent to its end and its next start: /metrics agrees with the
// API, also about what was lost.
import { execFileSync } from 'node:child_process';
import { symlinkSync } from 'node:fs';
import { basename, join } from 'node:path';
import { type Sample, samplesOf, total, valuesOf } from '../daemon/metrics/scraped.ts';
import { AS_NOBODY } from '../unprivileged.ts';
import { endAll, freePort, type Running, start, temporaryFolder } from './kreplay.ts';

const WRITES = 997;
/** Far more than fit into a ring of 1 MiB. */
const BURST_WRITES = 60_000;
const NODE = 'watched';

const folder = temporaryFolder();
const data = `${folder.path}/data`;
/** It is dd by a name that no other program of this machine has. */
const WRITER = join(folder.path, `dd-${process.pid}`);
let url: string;
let agent: Running;

async function startAgent(): Promise<Running> {
  // Only one command and one event type are recorded, so that the numbers do not change between two readings.
  const only = ['--comm', basename(WRITER), '--event-type', 'sys_write'];
  const running = start(['agent', '--data', data, '--node', NODE, '--ring-size', '1', ...only]);
  await running.says('recording to');
  return running;
}

beforeAll(async () => {
  symlinkSync('/bin/dd', WRITER);
  const port = await freePort();
  url = `http://127.0.0.1:${port}`;
  agent = await startAgent();
  const daemon = start(['daemon', '--data', data, '--listen', `127.0.0.1:${port}`]);
  await daemon.says('serving');
});

afterAll(() => {
  endAll();
  folder.remove();
});

async function scrape(): Promise<Sample[]> {
  return samplesOf(await (await fetch(`${url}/metrics`)).text());
}

interface Numbers {
  recorded: Record<string, number>;
  lost: number;
}

async function fromMetrics(): Promise<Numbers> {
  const samples = await scrape();
  const of = (event_type: string) => total(samples, 'kreplay_events_recorded_total', { node: NODE, event_type });
  const recorded = { sys_write: of('sys_write'), block_io: of('block_io') };
  return { recorded, lost: total(samples, 'kreplay_events_lost_total', { node: NODE }) };
}

async function fromApi(): Promise<Numbers> {
  const headers = { accept: 'application/x-ndjson' };
  const count = async (type: string) => {
    const lines = await (await fetch(`${url}/api/events?event_type=${type}`, { headers })).text();
    return lines.split('\n').length - 1;
  };
  const { coverage } = (await (await fetch(`${url}/api/events?limit=1`)).json()) as { coverage: { lost: number } };
  return { recorded: { sys_write: await count('sys_write'), block_io: await count('block_io') }, lost: coverage.lost };
}

/** Polls until the condition holds, for 20 s at most. */
async function until(isSo: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + 20_000;
  while (!(await isSo()) && performance.now() < deadline) await new Promise((resolve) => setTimeout(resolve, 100));
}

function write(count: number): void {
  execFileSync(WRITER, ['if=/dev/zero', 'of=/dev/null', 'bs=1', `count=${count}`, 'status=none']);
}

test('every event is counted, and nothing else', async () => {
  write(WRITES);
  await until(async () => (await fromMetrics()).recorded.sys_write! >= WRITES);
  const numbers = await fromMetrics();
  expect(numbers).toEqual({ recorded: { sys_write: WRITES, block_io: 0 }, lost: 0 });
  expect(await fromApi()).toEqual(numbers);
  const samples = await scrape();
  expect(valuesOf(samples, 'kreplay_agent_ring_size_bytes')).toEqual([1 << 20]);
  expect(total(samples, 'kreplay_agent_ring_peak_bytes')).toBeGreaterThan(0);
  expect(total(samples, 'kreplay_agent_commit_duration_seconds_count')).toBeGreaterThan(0);
  expect(total(samples, 'kreplay_agent_recording')).toBe(1);
  expect(total(samples, 'kreplay_agent_cpu_seconds_total')).toBeGreaterThan(0);
});

test('the losses of a hanging agent are counted by cause', async () => {
  agent.process.kill('SIGSTOP');
  write(BURST_WRITES);
  // A stopped agent cannot answer, and the daemon does not wait for it for long.
  expect(total(await scrape(), 'kreplay_agent_up')).toBe(0);
  agent.process.kill('SIGCONT');
  const all = ({ recorded, lost }: Numbers) => recorded.sys_write! + lost;
  await until(async () => all(await fromMetrics()) >= WRITES + BURST_WRITES);
  const numbers = await fromMetrics();
  expect(all(numbers)).toBe(WRITES + BURST_WRITES);
  expect(await fromApi()).toEqual(numbers);
  const samples = await scrape();
  const full = { node: NODE, cause: 'shed', event_type: 'sys_write' };
  expect(valuesOf(samples, 'kreplay_events_lost_total', full)).toEqual([numbers.lost]);
  expect(total(samples, 'kreplay_recording_lost_events')).toBe(numbers.lost);
  expect(total(samples, 'kreplay_agent_ring_peak_bytes') / (1 << 20)).toBeGreaterThan(0.7);
});

async function agentState(): Promise<string> {
  const response = await fetch(`${url}/readyz`);
  expect(response.status).toBe(200);
  const { recordings } = (await response.json()) as { recordings: { node: string; agent: { state: string } }[] };
  expect(recordings.map(({ node }) => node)).toEqual([NODE]);
  return recordings[0]!.agent.state;
}

test('the end and the restart of an agent are visible', async () => {
  expect(await agentState()).toBe('recording');
  agent.process.kill('SIGTERM');
  await agent.ended;
  const samples = await scrape();
  expect(['up', 'recording'].map((name) => valuesOf(samples, `kreplay_agent_${name}`))).toEqual([[0], [0]]);
  expect(valuesOf(samples, 'kreplay_events_recorded_total')).toEqual([]);
  expect(total(samples, 'kreplay_ready')).toBe(1);
  expect(await agentState()).toBe('stopped');

  agent = await startAgent();
  expect([await agentState(), await fromMetrics()]).toEqual([
    'recording',
    { recorded: { sys_write: 0, block_io: 0 }, lost: 0 },
  ]);
});

test('a killed agent leaves a socket that its successor replaces', async () => {
  agent.process.kill('SIGKILL');
  await agent.ended;
  expect(total(await scrape(), 'kreplay_agent_up')).toBe(0);
  agent = await startAgent();
  expect(total(await scrape(), 'kreplay_agent_up')).toBe(1);
});

test('a daemon with read-only access has the same numbers', async () => {
  const port = await freePort();
  execFileSync('chmod', ['755', folder.path, data]);
  const daemon = start(['daemon', '--data', data, '--listen', `127.0.0.1:${port}`], AS_NOBODY);
  await daemon.says('serving');
  url = `http://127.0.0.1:${port}`;
  const samples = await scrape();
  expect([total(samples, 'kreplay_agent_up'), total(samples, 'kreplay_agent_recording')]).toEqual([1, 1]);
});
