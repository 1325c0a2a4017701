/** The data of a session that outlives the daemon, and its stored form. */

import { z } from 'zod';
import { I64_MAX, I64_MIN } from '../../base/bigints.ts';
import { parseJson, stringify } from '../../base/exact_json.ts';
import { int64 } from '../../contract/int64.ts';
import { SPEED_FACTOR_MAX, SPEED_FACTOR_MIN } from '../../contract/replay_requests.ts';
import { STATES } from '../../contract/transitions.ts';
import { OFFSET_SOURCES } from '../../contract/words.ts';
import type { SessionPlace, StoredSession } from './state_file.ts';

const INT64_MIN = I64_MIN;
const INT64_MAX = I64_MAX;

const count = z.int().min(0);
const texts = z.array(z.string()).readonly().optional();
const only = z.object({ eventTypes: texts, services: texts, nodes: texts });
const latency = z
  .array(
    z.object({
      fromIndex: count,
      extraLatencyNs: count,
      only: only.optional(),
      maxGapNs: count.nullable().optional(),
    }),
  )
  .min(1)
  .readonly();

/** A clock offset: a bigint if a double would not be exact. */
const offset = z.union([z.int(), z.bigint()]);

/** A field that is added here needs a default, so that rows from older versions can be read. */
const facts = z.object({
  settings: z.object({
    transactionId: z.string(),
    speedFactor: z.number().min(SPEED_FACTOR_MIN).max(SPEED_FACTOR_MAX),
    extraLatencyNs: count,
    timeoutNs: int64(1n, INT64_MAX).nullable(),
    maxGapNs: count.nullable(),
    clockOffsetsNs: z.record(z.string(), offset).readonly(),
    clockUncertaintiesNs: z.record(z.string(), count).readonly().optional(),
    loop: z.boolean(),
    only: only.default({}),
  }),
  state: z.enum(STATES),
  outline: z.object({
    eventCount: count,
    firstTimestampNs: int64(INT64_MIN, INT64_MAX),
    recordedDurationNs: count,
    latency,
    survey: z
      .object({ durationNs: count, endNs: count.optional(), timeoutEventId: z.string().nullable() })
      // Rows without endNs are from an older version, whose durationNs covered all events.
      .transform((survey) => ({ ...survey, endNs: survey.endNs ?? survey.durationNs }))
      .nullable(),
    clocks: z
      .array(
        z.object({
          node: z.string(),
          offsetNs: offset,
          steppedNs: int64(INT64_MIN, INT64_MAX),
          source: z.enum(OFFSET_SOURCES),
          uncertaintyNs: count.nullable().default(null),
        }),
      )
      .readonly(),
  }),
  rounds: count,
  failure: z.string().nullable(),
  /** How often the session was reopened. Each reopening reserves new frame ids above all ids used before. */
  life: count,
  createdAt: z.iso.datetime(),
  updatedAt: z.iso.datetime(),
});

export type KeptSession = SessionPlace & z.output<typeof facts>;

/** A kept session, and when it was last used by the wall clock. */
export interface KeptRow {
  session: KeptSession;
  usedAtMs: number;
}

export function encodeStoredSession({ session, usedAtMs }: KeptRow): StoredSession {
  const { sessionId, eventIndex, positionNs, ...rest } = session;
  return { sessionId, eventIndex, positionNs, usedAtMs, facts: stringify(rest) };
}

/** Decodes a row; throws for a row that `encodeStoredSession` never produces. */
export function decodeStoredSession({ facts: text, usedAtMs, ...place }: StoredSession): KeptRow {
  return { session: { ...place, ...facts.parse(parseJson(text)) }, usedAtMs };
}
