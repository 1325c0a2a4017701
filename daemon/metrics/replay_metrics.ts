/** Metrics of replay: the number of sessions, and the lateness of their events. */
import { Gauge, Histogram, type Registry } from '@prometheus-io/client';
import type { Sessions } from '../replay/session/sessions.ts';
import { STATES } from '../replay/transitions.ts';

const LATENESS_SECONDS = [0.00001, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.1, 1];

export function replayMetrics(registry: Registry) {
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
