/** Formats proposed maps as `--map` options that can be pasted into a shell. */
import type { PathMap } from './map_proposals.ts';
import type { ProposedMaps } from './result.ts';

const NAMED_MAX = 4;
const QUIET = /^[\w@%+,.:/-]*$/;
const QUIET_IN_QUOTES = /^[\w@%+,.:/~ -]*$/;

/**
 * `folder` is the working folder, and `pwd` is the PWD variable. The two differ if the shell entered the folder through
 * a symbolic link.
 */
export interface Surroundings {
  folder: string;
  pwd: string | undefined;
}

/** Returns the options that the user should pass: all maps if they are consistent, otherwise a list of alternatives. */
export function formatProposals({ options, fits }: ProposedMaps): string {
  if (fits) return options.join(' ');
  const more = options.length > NAMED_MAX ? [`${options.length - NAMED_MAX} others`] : [];
  return [...options.slice(0, NAMED_MAX), ...more].join(', or ');
}

export function formatMapOption({ here, there }: PathMap, { folder, pwd }: Surroundings): string {
  const isOfFolder = pwd === folder && folder !== '/' && (here === folder || here.startsWith(`${folder}/`));
  const rest = isOfFolder ? `${here.slice(folder.length)}=${there}` : '';
  if (isOfFolder && QUIET_IN_QUOTES.test(rest.replace('=', ''))) return `--map "$PWD${rest}"`;
  const text = `${here}=${there}`;
  return `--map ${QUIET.test(text.replace('=', '')) ? text : quoteForShell(text)}`;
}

export function quoteForShell(text: string): string {
  return QUIET.test(text) && text !== '' ? text : `'${text.replaceAll("'", "'\\''")}'`;
}
