/** Schemas that several endpoints share. */
import { z } from 'zod';
import { int64 } from '../../bpf/schema/api.ts';

export const timestampNs = (description: string) =>
  int64().meta({ description: `${description}, nanoseconds since the epoch` });

export const durationNs = (description: string) => int64().meta({ description: `${description}, nanoseconds` });

export const count = (description: string) => z.int().nonnegative().meta({ description });

export const dateTime = (description: string) =>
  z.string().meta({ description: `${description}, RFC 3339`, format: 'date-time' });
