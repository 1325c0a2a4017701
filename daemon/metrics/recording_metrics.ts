/** Metrics of recordings. Files of one node and source are summed up, because the number of imports is unlimited. */
import { Gauge, type Registry } from '@prometheus-io/client';
import type { AgentReport } from '../../bpf/schema/agent_report.ts';
import { LOSS_CAUSES } from '../../bpf/schema/losses.ts';
import type { RecordingState } from '../store/store.ts';
import { agentOf } from './recording_agent.ts';

export function recordingMetrics(registry: Registry) {
  const gauge = (name: string, help: string, ...labelNames: string[]) =>
    new Gauge({ name, help, labelNames, registers: [registry] });
  const ready = gauge(
    'kreplay_ready',
    '1 when every recording that is served can be read, or the fleet, as /readyz reports.',
  );
  const unreadable = gauge(
    'kreplay_unreadable_imports',
    'Imported files that cannot be read, and that the others are served without; /readyz names them.',
  );
  const ofFiles = (name: string, help: string) => gauge(`kreplay_recording_${name}`, help, 'node', 'source');
  const size = ofFiles('size_bytes', 'Recordings with their logs.');
  const limit = ofFiles('limit_bytes', 'What --retain-bytes lets a recording take; not there without a limit.');
  const events = ofFiles('events', 'Events that the recordings hold now.');
  const oldest = ofFiles('oldest_event_timestamp_seconds', 'Start of the oldest event that is held.');
  const newest = ofFiles('last_event_timestamp_seconds', 'Start of the newest event that is held.');
  const lost = gauge(
    'kreplay_recording_lost_events',
    'Events that the recordings miss, as the coverage of an answer reports; shrinks as notes get too old to matter.',
    ...['node', 'source', 'cause'],
  );
  const recording = gauge('kreplay_agent_recording', '1 while an agent records into the data folder.', 'node');
  const alive = gauge(
    'kreplay_agent_alive_timestamp_seconds',
    'Until when an agent is known to have recorded into the data folder.',
    'node',
  );
  const ofRecordings = [size, limit, events, oldest, newest, lost, recording, alive];

  return {
    /** `states` is undefined if the recordings cannot be read. */
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
        const firsts = numbersOf(group, ({ firstTimestampNs }) => firstTimestampNs);
        const lasts = numbersOf(group, ({ lastTimestampNs }) => lastTimestampNs);
        const limits = numbersOf(group, ({ limitBytes }) => limitBytes);
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
        const agent = agentOf(state, nowNs, answer);
        recording.set({ node: state.node }, agent.state === 'recording' ? 1 : 0);
        if (agent.aliveNs !== null) alive.set({ node: state.node }, Number(agent.aliveNs) / 1e9);
      }
    },
  };
}

function numbersOf(states: readonly RecordingState[], of: (state: RecordingState) => bigint | number | null): number[] {
  return states
    .map(of)
    .filter((value) => value !== null)
    .map(Number);
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
