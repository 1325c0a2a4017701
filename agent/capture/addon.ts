/** Finds out whether the addon of libbpf-ts can be loaded: it needs libraries that a package manager installs. */
import { possibleCpus } from 'libbpf-ts';
import { UnfitHostError } from '../process/errors.ts';

/** The Debian packages of the libraries. */
const PACKAGES: Readonly<Record<string, string>> = {
  'libelf.so.1': 'libelf1',
  'libz.so.1': 'zlib1g',
};

export interface AddonProblem {
  /** The library that the addon needs and this host does not have, such as `libelf.so.1`. */
  missing: string;
  /** The message of the dynamic loader. */
  text: string;
  advice: string;
}

/** Returns the reason why the addon cannot be loaded; undefined if it is loaded. */
export function findAddonProblem(): AddonProblem | undefined {
  try {
    possibleCpus();
    return undefined;
  } catch (error) {
    // Any other error comes from the addon itself, so the addon is loaded.
    if ((error as NodeJS.ErrnoException).code !== 'ERR_ADDON') return undefined;
    return describeAddonProblem(((error as Error).cause as Error).message);
  }
}

/**
 * Describes a failure to load the addon. `words` is the message of dlopen(3), or of Node if the addon's file is
 * missing.
 */
export function describeAddonProblem(words: string): AddonProblem {
  const text = words.split('\n')[0]!;
  const library = /(?:^|\/)(lib[\w.+-]+\.so\.\d+): /.exec(text)?.[1];
  if (library === undefined) {
    return { missing: 'libbpf_ts.node', text, advice: 'install the package again, or run `make build`' };
  }
  const name = PACKAGES[library];
  const advice = name ? `on Debian: apt install ${name}` : 'kreplay needs the libraries of Debian 12 or later';
  return { missing: library, text, advice };
}

/** @throws UnfitHostError if the addon cannot be loaded */
export function checkAddon(): void {
  const problem = findAddonProblem();
  if (problem) throw new UnfitHostError(`a library cannot be loaded: ${problem.text}; ${problem.advice}`);
}
