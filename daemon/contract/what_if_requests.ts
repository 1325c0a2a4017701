/** Schemas of what-if requests, which concern one transaction or all transactions that match a filter. */

import { z } from 'zod';
import { EVENT_TYPES } from '../../bpf/schema/index.ts';
import { I64_MAX } from '../base/bigints.ts';
import { parseMilliseconds } from '../base/duration.ts';
import { parseTime, TIME_FORMATS, type TimeExpression, timeMessage } from '../base/time.ts';
import { coverageDetail } from './coverage_schema.ts';
import { documented } from './documented.ts';
import { errorArray, OPERATIONS, SYSCALLS, TIME_JSON } from './parameters.ts';
import { clockOffsetsNs, extraLatencyNs, files, names, only, timeoutNs } from './replay_requests.ts';

const AFTER_TIMEOUT_MAX = 1000;
export const AFTER_TIMEOUT_DEFAULT = 20;
const DURATION_NS_MAX = I64_MAX;
const MS_MESSAGE = 'must be decimal milliseconds, such as 0.05, and whole nanoseconds';

const time = documented(
  z.union([z.string(), z.number(), z.bigint()], { error: TIME_FORMATS }).transform((value, context): TimeExpression => {
    const known = parseTime(String(value));
    if (known) return known;
    context.issues.push({ code: 'custom', message: timeMessage(String(value)), input: value });
    return z.NEVER;
  }),
  TIME_JSON,
);

const milliseconds = documented(
  z.union([z.number(), z.bigint()], { error: MS_MESSAGE }).transform((value, context) => {
    const ns = parseMilliseconds(String(value));
    if (ns !== undefined && ns <= DURATION_NS_MAX) return ns;
    context.issues.push({ code: 'custom', message: MS_MESSAGE, input: value });
    return z.NEVER;
  }),
  { type: 'number', minimum: 0 },
);

const buildWordsSchema = <Word extends string>(words: readonly Word[], what: string) =>
  z.array(z.enum(words)).min(1, `must name ${what}`).optional();

const eventTypes = () => buildWordsSchema(EVENT_TYPES, 'a type');
const operations = () => buildWordsSchema(OPERATIONS, 'an operation');
const syscalls = () => buildWordsSchema(SYSCALLS, 'a system call');

/** The conditions that a list of transactions takes as parameters, here as arrays. */
const values = {
  event_type: eventTypes().meta({ description: 'with events of these types' }),
  operation: operations().meta({ description: 'with block requests with these operations' }),
  syscall: syscalls().meta({ description: 'with calls of these system calls' }),
  device: names('device').meta({ description: 'with block requests to these devices' }),
  comm: names('command').meta({ description: 'with events of threads with these names' }),
  file: files().meta({
    description:
      'with calls on files with these paths; a path that ends in * stands for all that begin so, one that ends in / for the files directly in that folder',
  }),
  error: errorArray.optional().meta({ description: 'with events that failed with these errors' }),
  exclude_service: names('service').meta({ description: 'none of these services took part' }),
  exclude_node: names('node').meta({ description: 'none of these nodes took part' }),
  exclude_event_type: eventTypes().meta({ description: 'without events of these types' }),
  exclude_operation: operations().meta({ description: 'without block requests with these operations' }),
  exclude_syscall: syscalls().meta({ description: 'without calls of these system calls' }),
  exclude_device: names('device').meta({ description: 'without block requests to these devices' }),
  exclude_comm: names('command').meta({ description: 'without events of threads with these names' }),
  exclude_file: files().meta({ description: 'without calls on these files, with the same patterns' }),
  exclude_error: errorArray.optional().meta({ description: 'without events that failed with these errors' }),
};

const where = z
  .strictObject({
    from: time.optional().meta({ description: 'their first own event began at or after this time' }),
    to: time.optional().meta({ description: 'they began before this time' }),
    service: names('service').meta({ description: 'one of these services took part' }),
    node: names('node').meta({ description: 'one of these nodes took part' }),
    min_duration_ms: milliseconds
      .optional()
      .meta({ description: 'minimum of their duration, in decimal milliseconds' }),
    max_duration_ms: milliseconds
      .optional()
      .meta({ description: 'maximum of their duration, in decimal milliseconds' }),
    has_error: z.boolean().optional().meta({ description: 'whether any of their events failed' }),
    ...values,
  })
  .meta({ description: 'all transactions that fit, instead of transaction_id' });

export const whatIfRequest = z
  .strictObject({
    transaction_id: z
      .string()
      .min(1, 'must not be empty')
      .optional()
      .meta({ description: 'transaction that the question is about' }),
    where: where.optional(),
    extra_latency_ns: extraLatencyNs.default(0n),
    timeout_ns: timeoutNs.default(null),
    clock_offsets_ns: clockOffsetsNs,
    only: only.prefault({}),
    coverage: coverageDetail.optional(),
    limit: z
      .int()
      .min(0)
      .max(AFTER_TIMEOUT_MAX)
      .optional()
      .meta({
        description: `maximum number of events after the deadline to return, ${AFTER_TIMEOUT_DEFAULT} unless given; not with \`where\``,
      }),
  })
  .refine(
    ({ transaction_id, where }) => (transaction_id === undefined) !== (where === undefined),
    'exactly one of transaction_id, where is needed',
  )
  .refine(({ where, limit }) => where === undefined || limit === undefined, {
    path: ['limit'],
    message: 'is for the events of one transaction, not for where',
  });
export type WhatIfBody = z.output<typeof whatIfRequest>;
export type Where = NonNullable<WhatIfBody['where']>;
