/** The answers of the API as clients receive them. */
import type { z } from 'zod';
import type { ApiEvent } from '../../bpf/schema/api.ts';
import type { accessResponse, readyResponse, statsSchema } from './answers.ts';
import type { coverageSchema } from './coverage_schema.ts';
import type { differencesSchema } from './differences.ts';
import type { pinListSchema } from './events.ts';
import type { heatmapSchema } from './heatmap.ts';
import type { curvesSchema, replayedEventSchema, sessionSchema, whatIfSchema } from './replay_answers.ts';
import type {
  explanationSchema,
  transactionSchema,
  transactionSummarySchema,
  transactionsSchema,
  wholeTransactionSchema,
} from './transactions.ts';

/** An integer: a number if a double represents it exactly, and a bigint otherwise. */
export type ExactInteger = number | bigint;

type Parsed<Value> = Value extends bigint
  ? ExactInteger
  : Value extends string | number | boolean | null | undefined
    ? Value
    : { [Key in keyof Value]: Parsed<Value[Key]> };

/** The type of an answer that a client has parsed, from the answer's schema. */
export type Received<Schema extends z.ZodType> = Parsed<z.infer<Schema>>;

/**
 * An answer in which the field with events has the type of `ApiEvent`. The schema of an event is built from the
 * definitions in bpf/schema, so its inferred type lacks the types of the fields.
 */
type WithEvents<Answer, Field extends string, Event> = Omit<Answer, Field> & Record<Field, Event[]>;

export type ReceivedCoverage = Received<typeof coverageSchema>;
export type Gap = NonNullable<ReceivedCoverage['gaps']>[number];
/** A sum of losses of one cause. */
export type LossSum = ReceivedCoverage['losses'][number];
/** A call or a request that has begun but not ended. */
export type InProgressEvent = NonNullable<ReceivedCoverage['in_progress']>['events'][number];

export type ReceivedTransaction = Received<typeof transactionSchema>;
export type WholeTransaction = Received<typeof wholeTransactionSchema>;
export type ReceivedWrittenBack = ReceivedTransaction['written_back'];
export type TransactionList = Received<typeof transactionsSchema>;
export type ExplanationAnswer = WithEvents<Received<typeof explanationSchema>, 'slowest', ApiEvent>;
export type ReceivedBurst = Pick<ExplanationAnswer['bursts'][number], 'from' | 'to'>;
export type ListedTransaction = WithEvents<Received<typeof transactionSummarySchema>, 'slowest', ApiEvent>;

export type ReceivedSession = Received<typeof sessionSchema>;
/** Events that get the extra latency: events that match every list. Without a list of types, only calls get it. */
export type Only = { [Field in keyof ReceivedSession['only']]?: readonly string[] | undefined };
export type ReceivedNodeClock = ReceivedSession['clock'][number];
export type Lateness = ReceivedSession['lateness'];
export type PlayedEvent = Received<typeof replayedEventSchema>;

export type LateEvent = ApiEvent & { replay_offset_ns: ExactInteger; replay_duration_ns: ExactInteger };
export type WhatIfAnswer = WithEvents<Received<typeof whatIfSchema>, 'after_timeout', LateEvent>;
export type ReceivedCurveLine = WhatIfAnswer['curve'][number];
export type CurvesAnswer = Received<typeof curvesSchema>;

export type StatsAnswer = Received<typeof statsSchema>;
export type HeatmapAnswer = Received<typeof heatmapSchema>;
export type MapKind = HeatmapAnswer['of'];
export type DifferencesAnswer = Received<typeof differencesSchema>;
export type ComparedSide = DifferencesAnswer['selected'];
export type DifferentValue = DifferencesAnswer['differences'][number]['values'][number];
/**
 * The fields of a comparison: the fields that filters have, and `neighbour`, which is a service or command that used
 * the same device at the same time.
 */
export type ComparedField = DifferentValue['field'];

export type ListedPin = Received<typeof pinListSchema>['pins'][number];

export type Readiness = Received<typeof readyResponse>;
export type Access = Received<typeof accessResponse>;
