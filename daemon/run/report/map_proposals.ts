/**
 * Proposes `--map HERE=THERE` options for files of the incident that the run did not find. On this machine, such files
 * may have the same names below another folder.
 *
 *   recorded  /srv/app     /log/orders.log
 *   here      /ci/work/var /log/orders.log     ->  /ci/work/var=/srv/app
 */

import { ELSEWHERE_MAX, type RunnerStatus } from '../control_lines.ts';
import { NONE } from '../format/report_file.ts';
import type { DelayPlan } from '../plan/compile.ts';
import { findEventStream } from './planned_streams.ts';
import type { CallReport } from './read_report.ts';

export interface PathMap {
  here: string;
  there: string;
  /** Number of recorded files for which the map finds a file on this machine. */
  files: number;
}

export interface MapProposals {
  maps: PathMap[];
  /** Whether all maps can be used together; false if they contradict each other. */
  fits: boolean;
}

/** Maximum number of pairs of files with the same base name. More pairs mean that base names identify no files. */
const PAIRS_MAX = 20_000;
const FOLDERS_MAX = 400;
/** Maximum number of maps. A run that needs more maps does not have the recorded folder layout. */
const MAPS_MAX = 16;

const NO_PROPOSALS: MapProposals = { maps: [], fits: false };

export function proposeMaps(plan: DelayPlan, calls: CallReport, said: RunnerStatus, folder: string): MapProposals {
  // The helper's list is full, so a folder that is not in it might fit as well.
  if (said.elsewhere.length >= ELSEWHERE_MAX) return NO_PROPOSALS;
  return matchFolders(listUnfoundPaths(plan, calls), said.elsewhere, folder);
}

function listUnfoundPaths(plan: DelayPlan, calls: CallReport): string[] {
  const found = new Set<string>();
  for (let at = 0; at < calls.count; at++)
    if (calls.event[at] !== NONE) found.add(plan.streams[findEventStream(plan, calls.event[at]!)]!.path);
  const paths = plan.streams.filter(({ pathKind }) => pathKind === 'regular').map(({ path }) => path);
  return [...new Set(paths)].filter((path) => path.startsWith('/') && !found.has(path));
}

interface Folders {
  here: string;
  there: string;
  /** Maps the recorded path of a file to its path on this machine. */
  found: Map<string, string>;
}

/**
 * Proposes maps from recorded paths and from paths on this machine. `folder` is the working folder of the command. For
 * a file below `folder`, HERE is `folder` or a folder below it.
 */
export function matchFolders(recorded: readonly string[], here: readonly string[], folder: string): MapProposals {
  const pairs = pairByName(recorded, here);
  if (!pairs) return NO_PROPOSALS;
  const all = new Map<string, Folders>();
  for (const [there, name] of pairs) {
    const roots = findRoots(there, name, folder);
    if (!roots) continue;
    const key = `${roots.here}\0${roots.there}`;
    const known = all.get(key) ?? { ...roots, found: new Map<string, string>() };
    all.set(key, known);
    known.found.set(there, name);
  }
  if (all.size > FOLDERS_MAX) return NO_PROPOSALS;
  const best = listMostFound([...all.values()]);
  if (best.length > MAPS_MAX) return NO_PROPOSALS;
  for (const folders of [best, best.map(narrow)]) {
    const sorted = folders.toSorted((one, other) => other.here.length - one.here.length);
    if (isConsistent(sorted)) return { maps: sorted.map(toMap), fits: sorted.length > 0 };
  }
  return { maps: best.map(toMap), fits: false };
}

function toMap({ here, there, found }: Folders): PathMap {
  return { here, there, files: found.size };
}

/** Pairs files with the same base name; returns undefined if there are too many pairs. */
function pairByName(recorded: readonly string[], here: readonly string[]): [string, string][] | undefined {
  const getName = (path: string) => path.slice(path.lastIndexOf('/') + 1);
  const byName = Map.groupBy(recorded, getName);
  const pairs: [string, string][] = [];
  for (const name of new Set(here)) {
    for (const there of byName.get(getName(name)) ?? []) pairs.push([there, name]);
    if (pairs.length > PAIRS_MAX) return undefined;
  }
  return pairs;
}

/**
 * Returns the highest folders below which both files have the same relative path. For a file below `folder`, the folder
 * `here` is not above `folder`. Returns undefined if no such folders can be mapped.
 */
function findRoots(there: string, here: string, folder: string): Pick<Folders, 'here' | 'there'> | undefined {
  const [theirs, ours] = [there.split('/'), here.split('/')];
  const least = isBelow(here, folder) ? folder.split('/').length : 2;
  let same = 0;
  while (
    theirs.length - same > 2 &&
    ours.length - same > least &&
    theirs[theirs.length - 1 - same] === ours[ours.length - 1 - same]
  )
    same++;
  const roots = {
    here: ours.slice(0, ours.length - same).join('/'),
    there: theirs.slice(0, theirs.length - same).join('/'),
  };
  return same > 0 && roots.here !== roots.there && isOption(roots) ? roots : undefined;
}

function isBelow(path: string, folder: string): boolean {
  return folder !== '/' && path.startsWith(`${folder}/`);
}

/** Returns whether `--map` can express the folders. It splits its value at the first `=`. */
function isOption({ here, there }: Pick<Folders, 'here' | 'there'>): boolean {
  return !here.includes('=') && !`${here}${there}`.includes('\uFFFD');
}

/** Leaves out each pair of folders that finds only a subset of the files that another pair finds. */
function listMostFound(all: readonly Folders[]): Folders[] {
  const isPart = (one: Folders, other: Folders) =>
    one.found.size < other.found.size && [...one.found.keys()].every((path) => other.found.has(path));
  return all
    .filter((one) => !all.some((other) => isPart(one, other)))
    .toSorted((one, other) => other.found.size - one.found.size || (one.here < other.here ? -1 : 1));
}

/** Returns the lowest folders that still contain all the files. */
function narrow({ here, there, found }: Folders): Folders {
  const rests = [...found.values()].map((name) =>
    name
      .slice(here.length + 1)
      .split('/')
      .slice(0, -1),
  );
  const [first = []] = rests;
  const differs = first.findIndex((part, at) => rests.some((rest) => rest[at] !== part));
  const common = first.slice(0, differs < 0 ? first.length : differs).map((part) => `/${part}`);
  return { here: [here, ...common].join(''), there: [there, ...common].join(''), found };
}

/**
 * Returns whether the maps are consistent. The first matching map must map each file on this machine to its recorded
 * path, and no recorded path may have two files.
 */
function isConsistent(folders: readonly Folders[]): boolean {
  const names = new Map<string, string>();
  for (const { found } of folders)
    for (const [there, here] of found) {
      const map = folders.find((each) => isBelow(here, each.here));
      if (!map || `${map.there}${here.slice(map.here.length)}` !== there) return false;
      if ((names.get(there) ?? here) !== here) return false;
      names.set(there, here);
    }
  return true;
}
