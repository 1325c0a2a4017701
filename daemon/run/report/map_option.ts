/** Writes proposed maps as options for a shell. */
import type { PathMap } from './map_proposals.ts';
import type { ProposedMaps } from './result.ts';

const NAMED_MAX = 4;
const QUIET = /^[\w@%+,.:/-]*$/;
const QUIET_IN_QUOTES = /^[\w@%+,.:/~ -]*$/;

/** `PWD` in the environment is the working folder only if it has no symbolic link in it. */
export interface Surroundings {
  folder: string;
  pwd: string | undefined;
}

/** Returns what to pass: all maps if these fit together, else the ones between which a person has to choose. */
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
