/**
 * The front of a command line that is to run as a user who owns nothing. It may read everything, because a clone below
 * /root is closed to other users, and has no other capability.
 */
export const NOBODY = 65534;

const CAPABILITIES = '-all,+dac_read_search';

export const AS_NOBODY: readonly [string, ...string[]] = [
  'setpriv',
  `--reuid=${NOBODY}`,
  `--regid=${NOBODY}`,
  '--clear-groups',
  `--bounding-set=${CAPABILITIES}`,
  `--inh-caps=${CAPABILITIES}`,
  `--ambient-caps=${CAPABILITIES}`,
];
