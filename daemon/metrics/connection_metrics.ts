/** Counts connections that the daemon closed by itself. The client sees only a reset, and nothing else records it. */
import { Counter, Gauge, type Registry } from '@prometheus-io/client';
import { CLOSE_REASONS, type CloseReason } from '../http/access/connections.ts';

export function connectionMetrics(registry: Registry) {
  const closed = new Counter({
    name: 'kreplay_connections_closed_total',
    help: `Connections that the daemon closed by itself: ${Object.entries(CLOSE_REASONS)
      .map(([reason, what]) => `${reason} (${what})`)
      .join(', ')}.`,
    labelNames: ['reason'],
    registers: [registry],
  });
  // Series start at 0, so that the first event is an increase.
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
