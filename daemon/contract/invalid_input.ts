/** Converts a schema's validation errors to a problem that names the field or parameter of each error. */
import type { z } from 'zod';
import { type InputError, Problem } from '../base/problem.ts';

export function createInputProblem(
  code: 'invalid_body' | 'invalid_parameter',
  { issues }: z.ZodError,
  noun: 'field' | 'parameter',
  place: (path: readonly PropertyKey[]) => { pointer: string } | { parameter: string },
): Problem {
  const errors: InputError[] = issues
    .flatMap(unwrapUnion)
    .flatMap((issue) =>
      issue.code === 'unrecognized_keys'
        ? issue.keys.map((key) => ({ ...place([...issue.path, key]), message: `unknown ${noun}` }))
        : [{ ...place(issue.path), message: formatIssue(issue) }],
    );
  const sentences = errors.map((error) => {
    const name = 'pointer' in error ? error.pointer.slice(1) : error.parameter;
    return name ? `${name}: ${error.message}` : error.message;
  });
  return new Problem(code, sentences.join('; '), errors);
}

/**
 * Returns the issues of the union member that the value matches apart from some fields. If there is no such member,
 * returns the issue itself.
 */
function unwrapUnion(issue: z.core.$ZodIssue): z.core.$ZodIssue[] {
  if (issue.code !== 'invalid_union') return [issue];
  const closest = issue.errors.find((issues) => issues.length > 0 && issues.every(({ path }) => path.length > 0));
  return closest?.map((one) => ({ ...one, path: [...issue.path, ...one.path] })) ?? [issue];
}

function formatIssue(issue: z.core.$ZodIssue): string {
  return issue.code === 'invalid_type' && issue.message.endsWith('received undefined') ? 'is required' : issue.message;
}
