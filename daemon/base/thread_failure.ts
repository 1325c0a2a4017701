/** Carries errors from one thread to another: a structured clone of an error would lose its code. */
import { ERRORS, type ErrorCode, type InputError, Problem } from './problem.ts';

/** An error that occurred in another thread; an unexpected error has no code. */
export interface ThreadFailure {
  code: ErrorCode | undefined;
  message: string;
  errors: readonly InputError[] | undefined;
  stack: string | undefined;
}

export function toThreadFailure(error: unknown): ThreadFailure {
  if (!(error instanceof Error))
    return { code: undefined, message: String(error), errors: undefined, stack: undefined };
  const { code } = error as { code?: unknown };
  const known = typeof code === 'string' && Object.hasOwn(ERRORS, code) ? (code as ErrorCode) : undefined;
  return { code: known, message: error.message, errors: (error as Partial<Problem>).errors, stack: error.stack };
}

export function toError({ code, message, errors, stack }: ThreadFailure): Error {
  if (code) return new Problem(code, message, errors);
  const error = new Error(message);
  if (stack !== undefined) error.stack = stack;
  return error;
}
