/** The schema of a failure: RFC 9457 problem details. */
import { z } from 'zod';
import { ERRORS, type ErrorCode } from '../../problem.ts';

const place = { message: z.string() };

export const problemSchema = z
  .object({
    type: z.string().meta({ description: 'urn:kreplay:error: and the code', format: 'uri' }),
    title: z.string(),
    status: z.int(),
    detail: z.string().meta({ description: 'what went wrong this time' }),
    code: z.enum(Object.keys(ERRORS) as [ErrorCode, ...ErrorCode[]]).meta({ description: 'stable, for programs' }),
    errors: z
      .array(
        z.union([
          z.object({ parameter: z.string().meta({ description: 'of the query, the path or the headers' }), ...place }),
          z.object({ pointer: z.string().meta({ description: 'into the body, RFC 6901' }), ...place }),
        ]),
      )
      .optional()
      .meta({ description: 'each input that is wrong' }),
  })
  .meta({ id: 'problem' });
