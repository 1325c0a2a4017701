/** Exit codes of `kreplay replay`, for scripts. */
export const EXIT = {
  /** Played to the end or to the event of --until-event, left with `q`, or the reader closed the output. */
  played: 0,
  /** Interrupted by Ctrl-C or a signal, or failed before the replay began. */
  interrupted: 1,
  broken: 3,
  sessionLost: 4,
} as const;

export const EXIT_HELP = `
Exit codes:
  0  played to the end or to --until-event, left with q, or the reader of the output had enough
  1  interrupted, or it could not begin
  2  wrong usage
  3  ended by --break (without the player: there it pauses)
  4  the session was stopped, deleted or ended by somebody else, or its daemon is gone
`;
