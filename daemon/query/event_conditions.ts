/** Parameters that select events; every request for events takes the same ones. */
import type { z } from 'zod';
import { described } from '../../bpf/schema/api.ts';
import type { EventFilter } from '../store/store.ts';
import { omitUndefined } from './omit_undefined.ts';
import * as parameter from './parameters.ts';
import { resolveTimeRange, reversed } from './time_range.ts';

export const CONDITION_LISTS = ['event_type', 'service', 'node'];

export const eventConditions = {
  transaction_id: described(parameter.text, 'events of one transaction'),
  trace_id: described(parameter.traceId, 'events of one W3C trace: 32 hex digits, any case'),
  service: described(parameter.services, 'events of these services; a list'),
  node: described(parameter.texts, 'events that these hosts recorded; a list'),
  event_type: described(parameter.eventTypes, 'events of these types; a list'),
  from: described(parameter.time, 'events that began at or after this time'),
  to: described(parameter.time, 'events that began before this time'),
  min_duration_ms: described(parameter.milliseconds, 'no shorter than this; decimal milliseconds'),
  max_duration_ms: described(parameter.milliseconds, 'no longer than this; decimal milliseconds'),
  pid: described(parameter.processId, 'events of one process'),
  comm: described(parameter.text, 'events of threads with this command name'),
  failed: described(parameter.boolean, 'true for negative results, false for the others'),
};

type Conditions = { [Name in keyof typeof eventConditions]?: z.output<(typeof eventConditions)[Name]> | undefined };

export function filterOf(given: Conditions, nowNs: bigint): EventFilter {
  const { min_duration_ms: minDurationNs, max_duration_ms: maxDurationNs } = given;
  if (minDurationNs !== undefined && maxDurationNs !== undefined && minDurationNs > maxDurationNs)
    throw reversed('min_duration_ms', 'max_duration_ms', 'longer than');
  return omitUndefined({
    transactionId: given.transaction_id,
    traceId: given.trace_id,
    services: given.service,
    nodes: given.node,
    eventTypes: given.event_type,
    ...resolveTimeRange(given, nowNs),
    minDurationNs,
    maxDurationNs,
    pid: given.pid,
    comm: given.comm,
    failed: given.failed,
  });
}
