/** Metrics that `kreplay ship` of this node reports. Its counts start at 0 with the process; without one there are none. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { Counter, Gauge, type Registry } from '@prometheus-io/client';
import { z } from 'zod';
import { POSITION_FILE, SHIP_SOCKET, type ShipReport } from '../../bpf/schema/ship_report.ts';
import { askSocket, count, durations } from './asked_socket.ts';
import { reportedHistogram } from './reported_histogram.ts';

/** Validates only the fields that are used: a newer shipper may report more. */
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

export interface ShippingState {
  /** Whether something was shipped from here. */
  ships: boolean;
  report: z.infer<typeof shipReport> | undefined;
}

/** Asks the shipper whose state is in this folder. One that is missing, hangs or sends nonsense counts as none. */
export async function shippingState(folder: string): Promise<ShippingState> {
  const answer = await askSocket(join(folder, SHIP_SOCKET), shipReport);
  const report = answer === 'silent' ? undefined : answer;
  return { ships: report !== undefined || existsSync(join(folder, POSITION_FILE)), report };
}

export function shipMetrics(registry: Registry) {
  const registers = [registry];
  const gauge = (name: string, help: string) =>
    new Gauge({ name: `kreplay_ship_${name}`, help, labelNames: ['node'], registers });
  const counter = (name: string, help: string, ...labelNames: string[]) =>
    new Counter({ name: `kreplay_ship_${name}`, help, labelNames: ['node', ...labelNames], registers });
  const up = new Gauge({
    name: 'kreplay_ship_up',
    help: '1 when `kreplay ship` of this node answers, 0 when it has shipped and does not; not there on a node that never shipped.',
    registers,
  });
  const events = counter('events_total', 'Events that have arrived at the fleet.');
  const unshipped = counter(
    'unshipped_events_total',
    'Events that were recorded and will not arrive: removed, or damaged, before they were sent.',
  );
  const bytes = counter(
    'wire_bytes_total',
    'Bytes of rows that were sent, packed, and again where they were repeated.',
  );
  const waiting = gauge('backlog_events', 'Events that are sealed and have not arrived.');
  const waitingSeconds = gauge('backlog_seconds', 'Age of the oldest event that has not arrived; 0 when none waits.');
  const blocked = gauge('blocked', '1 when nothing arrives until an operator acts; the log says what to do.');
  const retries = counter('retries_total', 'Failures after which the same was sent again, by code.', 'code');
  const offset = gauge('clock_offset_seconds', "The server's clock minus the node's, as last measured.");
  const inserts = reportedHistogram(
    registry,
    'kreplay_ship_insert_duration_seconds',
    'How long a group of events took until it had arrived in all tables.',
  );
  const all = [events, unshipped, bytes, waiting, waitingSeconds, blocked, retries, offset];
  return {
    /** Undefined: this daemon asks no shipper. */
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
