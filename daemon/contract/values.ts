/** Schemas of answers that several endpoints give. */
import { z } from 'zod';

/** A bigint here, an exact JSON integer on the wire. */
export const int64 = () => z.bigint().meta({ type: 'integer', format: 'int64' });

export const timestampNs = (description: string) =>
  int64().meta({ description: `${description}, nanoseconds since the epoch` });

export const durationNs = (description: string) => int64().meta({ description: `${description}, nanoseconds` });

export const count = (description: string) => z.int().nonnegative().meta({ description });

export const dateTime = (description: string) =>
  z.string().meta({ description: `${description}, RFC 3339`, format: 'date-time' });

export const coverageSchema = z
  .object({
    lost: count('events that are missing in the window, as far as that is counted'),
    gaps: z.array(
      z.object({
        from: timestampNs('where it begins'),
        to: timestampNs('where it ends'),
        lost: count('events that it costs; 0 when not even that is known'),
        cause: z.string().meta({ description: 'why' }),
      }),
    ),
  })
  .meta({ id: 'coverage', description: 'what the recording is missing in the window that was asked for' });
