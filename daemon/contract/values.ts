/** Schemas that several endpoints share. */
import { z } from 'zod';
import { int64 } from '../../bpf/schema/api.ts';
import { nameTimeText, type TimeTextName } from '../base/time_text.ts';

type Time<Name extends string, Ns, Text> = Record<Name, Ns> & Record<TimeTextName<Name>, Text>;

/** Builds two fields for a time of an answer: nanoseconds since the epoch, and the same time as text. */
export function time<Name extends string>(name: Name, description: string) {
  const fields = { [name]: timeNs(description), [nameTimeText(name)]: timeText(name) };
  return fields as Time<Name, ReturnType<typeof int64>, z.ZodString>;
}

/** Works like `time`, for a time that may be null. */
export function timeOrNull<Name extends string>(name: Name, description: string) {
  const fields = { [name]: timeNs(description).nullable(), [nameTimeText(name)]: timeText(name).nullable() };
  return fields as Time<Name, z.ZodNullable<ReturnType<typeof int64>>, z.ZodNullable<z.ZodString>>;
}

const timeNs = (description: string) => int64().meta({ description: `${description}, nanoseconds since the epoch` });

const timeText = (name: string) => z.string().meta({ description: `\`${name}\` as RFC 3339`, format: 'date-time' });

export const durationNs = (description: string) => int64().meta({ description: `${description}, nanoseconds` });

export const count = (description: string) => z.int().nonnegative().meta({ description });

export const dateTime = (description: string) =>
  z.string().meta({ description: `${description}, RFC 3339`, format: 'date-time' });
