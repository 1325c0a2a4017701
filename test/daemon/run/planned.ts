/** Makes plans of recorded rows, and reads plan files by their layout alone. */
import { openSource } from '../../../daemon/export/source.ts';
import { readRecord } from '../../../daemon/run/format/layout.ts';
import { planEvent, planHeader, planSlot, planStream } from '../../../daemon/run/format/plan_file.ts';
import { compilePlan, type DelayPlan, type PlanOptions } from '../../../daemon/run/plan/compile.ts';
import { addBlock } from '../../../daemon/run/plan/from_blocks.ts';
import { createIncident, type Incident } from '../../../daemon/run/plan/incident.ts';
import { type Row, recorded } from '../recorded.ts';

export const TRANSACTION = 'order-1';

const DEFAULTS: PlanOptions = { seed: 1n, speed: 1, extraLatencyNs: 0, inject: [], fail: [] };

export function incidentOf(rows: readonly Row[]): Incident {
  return incidentIn(recorded(rows.map((row) => ({ transaction: TRANSACTION, ...row }))));
}

export function incidentIn(folder: string): Incident {
  const source = openSource(folder);
  const incident = createIncident();
  for (const block of source.scan({ transactionId: TRANSACTION })) addBlock(incident, block);
  source.close();
  return incident.finish();
}

export function planOf(incident: Incident, options: Partial<PlanOptions> = {}): DelayPlan {
  return compilePlan(incident, { ...DEFAULTS, ...options });
}

export function decodePlan(bytes: Buffer) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const header = readRecord(view, 0, planHeader);
  const many = <Read>(at: bigint, count: number, size: number, read: (place: number) => Read) =>
    Array.from({ length: count }, (_, number) => read(Number(at) + number * size));
  const text = (offset: number) => {
    const start = Number(header.strings_at) + offset;
    return bytes.toString('utf8', start, bytes.indexOf(0, start));
  };
  const streams = many(header.streams_at, header.stream_count, planStream.size, (at) => {
    const stream = readRecord(view, at, planStream);
    return { ...stream, path: text(stream.path), comm: text(stream.comm), service: text(stream.service) };
  });
  const slots = many(header.slots_at, header.slot_count, planSlot.size, (at) => {
    const slot = readRecord(view, at, planSlot);
    return { ...slot, comm: text(slot.comm) };
  });
  const events = many(header.events_at, header.event_count, planEvent.size, (at) => readRecord(view, at, planEvent));
  return { header, streams, slots, events };
}
