/** The result of one check. */

/**
 * `failed`: recording is impossible. `warning`: less is recorded than possible. `unknown`: an earlier failure prevents
 * the check.
 */
export type CheckState = 'ok' | 'warning' | 'failed' | 'unknown';

export interface Check {
  name: string;
  state: CheckState;
  /** The finding, for people. */
  text: string;
  /** The remedy, if there is one. */
  advice?: string;
  /** The finding, for programs. */
  facts?: Readonly<Record<string, string | number | boolean | readonly string[]>>;
}
