/** Chooses the file in which sessions are kept. */
import { accessSync, constants, statSync } from 'node:fs';
import { join } from 'node:path';

export const STATE_FILE = 'sessions.sqlite';

/** The user's choice: a file, none (false), or by default the file next to the recording. */
export type StateChoice = string | false | undefined;

export interface StatePlace {
  path: string | null;
  /** Why sessions are kept in no file; empty if there is a file. */
  reason: string;
}

/** `data` is the folder or the recording that is served. */
export function chooseStatePlace(choice: StateChoice, data: string | undefined): StatePlace {
  if (typeof choice === 'string') return { path: choice, reason: '' };
  const reason = choice === false ? '--no-state' : findStateObstacle(data);
  return reason === null ? { path: join(data!, STATE_FILE), reason: '' } : { path: null, reason };
}

function findStateObstacle(data: string | undefined): string | null {
  if (data === undefined) return 'no data folder is served';
  if (statSync(data, { throwIfNoEntry: false })?.isDirectory() !== true) return `${data} is not a folder now`;
  try {
    accessSync(data, constants.W_OK);
    return null;
  } catch (error) {
    return `${data} cannot be written (${(error as NodeJS.ErrnoException).code})`;
  }
}
