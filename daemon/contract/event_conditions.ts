/** Parameters that select events; every request for events takes these parameters. */
import type { z } from 'zod';
import { described } from '../../bpf/schema/api.ts';
import type { EventFilter } from '../store/store.ts';
import { omitUndefined } from './omit_undefined.ts';
import * as parameter from './parameters.ts';
import { createReversedProblem, resolveTimeRange } from './time_range.ts';

/** Parameters for values of events, other than services and nodes. */
export const valueConditions = describeValueConditions('');
export const exclusions = describeExclusions('not ');

/** The same parameters for transactions: one event with the value selects or excludes its transaction. */
export const transactionValues = {
  ...describeValueConditions('transactions with '),
  ...describeExclusions('no transactions with '),
};

function describeValueConditions(start: string) {
  return {
    event_type: described(parameter.eventTypes, `${start}events of these types; a list`),
    operation: described(parameter.operations, `${start}block requests with these operations; a list`),
    syscall: described(parameter.syscalls, `${start}calls of these system calls; a list`),
    device: described(parameter.names, `${start}block requests to these devices; a list`),
    comm: described(parameter.names, `${start}events of threads with these command names; a list`),
    file: described(
      parameter.files,
      `${start}calls on files with these paths; a path that ends in * stands for all that begin so, one that ends in / for the files directly in that folder; a list`,
    ),
    error: described(parameter.errors, `${start}events that failed with these errors, such as ENOSPC; a list`),
  };
}

function describeExclusions(start: string) {
  return {
    exclude_service: described(parameter.names, `${start}events of these services, wholly or in part; a list`),
    exclude_node: described(parameter.hosts, `${start}events that these hosts recorded; a list`),
    exclude_event_type: described(parameter.eventTypes, `${start}events of these types; a list`),
    exclude_operation: described(parameter.operations, `${start}block requests with these operations; a list`),
    exclude_syscall: described(parameter.syscalls, `${start}calls of these system calls; a list`),
    exclude_device: described(parameter.names, `${start}block requests to these devices; a list`),
    exclude_comm: described(parameter.names, `${start}events of threads with these command names; a list`),
    exclude_file: described(parameter.files, `${start}calls on these files, with the same patterns; a list`),
    exclude_error: described(parameter.errors, `${start}events that failed with these errors; a list`),
  };
}

export const CONDITION_LISTS = ['service', 'node', ...Object.keys(valueConditions), ...Object.keys(exclusions)];

export const eventConditions = {
  transaction_id: described(parameter.text, 'events of one transaction'),
  queued_by: described(
    parameter.names,
    'block requests that tasks of these transactions queued, whatever data they carry; a list',
  ),
  trace_id: described(parameter.traceId, 'events of one W3C trace: 32 hex digits, any case'),
  service: described(parameter.names, 'events of these services; a list'),
  node: described(parameter.hosts, 'events that these hosts recorded; a list'),
  ...valueConditions,
  ...exclusions,
  from: described(parameter.time, 'events that began at or after this time'),
  to: described(parameter.time, 'events that began before this time'),
  min_duration_ms: described(parameter.milliseconds, 'events no shorter than this, in decimal milliseconds'),
  max_duration_ms: described(parameter.milliseconds, 'events no longer than this, in decimal milliseconds'),
  pid: described(parameter.processId, 'events of one process'),
  failed: described(parameter.boolean, 'true for events with negative results, false for the others'),
};

type ParameterValues<Parameters extends Record<string, z.ZodType>> = {
  [Name in keyof Parameters]?: z.output<Parameters[Name]> | undefined;
};
type Conditions = ParameterValues<typeof eventConditions>;
type ValueParameters = Pick<Conditions, 'service' | 'node' | keyof typeof valueConditions | keyof typeof exclusions>;

/** Builds the part of a filter that concerns values of events. */
export function buildValueFilter(given: ValueParameters) {
  const excluded = omitUndefined({
    services: given.exclude_service,
    nodes: given.exclude_node,
    eventTypes: given.exclude_event_type,
    operations: given.exclude_operation,
    syscalls: given.exclude_syscall,
    devices: given.exclude_device,
    comms: given.exclude_comm,
    files: given.exclude_file,
    results: given.exclude_error,
  });
  return omitUndefined({
    services: given.service,
    nodes: given.node,
    eventTypes: given.event_type,
    operations: given.operation,
    syscalls: given.syscall,
    devices: given.device,
    comms: given.comm,
    files: given.file,
    results: given.error,
    excluded: Object.keys(excluded).length > 0 ? excluded : undefined,
  });
}

export function buildEventFilter(given: Conditions, nowNs: bigint): EventFilter {
  const { min_duration_ms: minDurationNs, max_duration_ms: maxDurationNs } = given;
  if (minDurationNs !== undefined && maxDurationNs !== undefined && minDurationNs > maxDurationNs)
    throw createReversedProblem('min_duration_ms', 'max_duration_ms', 'longer than');
  return omitUndefined({
    transactionId: given.transaction_id,
    traceId: given.trace_id,
    queuers: given.queued_by,
    ...buildValueFilter(given),
    ...resolveTimeRange(given, nowNs),
    minDurationNs,
    maxDurationNs,
    pid: given.pid,
    failed: given.failed,
  });
}
