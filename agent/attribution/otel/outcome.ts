/**
 * A value, or the reason why it is unavailable. Failures are returned, not thrown, because any inspected process may
 * end or provide wrong data.
 */
export type Outcome<Value, Reason extends string> =
  | { readonly value: Value; readonly reason?: undefined }
  | { readonly value: undefined; readonly reason: Reason };

/** Why a process cannot be inspected. */
export type ProcessReason = 'gone' | 'not_permitted' | 'too_large';

export function found<Value>(value: Value): { readonly value: Value } {
  return { value };
}

export function missing<Reason extends string>(reason: Reason): { readonly value: undefined; readonly reason: Reason } {
  return { value: undefined, reason };
}
