/** One thing that was looked at. */

/** `failed`: nothing is recorded like this. `warning`: less than could be. `unknown`: what came before is in the way. */
export type CheckState = 'ok' | 'warning' | 'failed' | 'unknown';

export interface Check {
  name: string;
  state: CheckState;
  /** What was found. */
  text: string;
  /** What to do. */
  advice?: string;
  /** What was found, for programs. */
  facts?: Readonly<Record<string, string | number | boolean | readonly string[]>>;
}
