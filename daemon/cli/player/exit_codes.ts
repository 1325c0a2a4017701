/** Exit codes of `kreplay replay`, for scripts. */
import { EXIT_CODES } from '../../../agent/config/help.ts';

export const EXIT = {
  /**
   * The replay reached its end or the event of --until-event, the user pressed `q`, or the reader closed the output.
   */
  played: 0,
  /** The replay was interrupted by Ctrl-C or a signal, or failed before it began. */
  interrupted: 1,
  broken: 3,
  sessionLost: 4,
} as const;

export const EXIT_HELP = {
  [EXIT.played]: 'played to the end or to --until-event, left with q, or the reader of the output closed it',
  [EXIT.interrupted]: 'interrupted, or the replay could not begin',
  2: EXIT_CODES[2],
  [EXIT.broken]: 'ended by --break (the player pauses instead)',
  [EXIT.sessionLost]:
    'the session was stopped or deleted by another client, failed or expired, or its daemon has ended',
} as const;
