/** Chooses the file in which sessions are kept. */
import { accessSync, constants, statSync } from 'node:fs';
import { join } from 'node:path';

export const STATE_FILE = 'sessions.sqlite';

/** The user's choice: a file, false for no file, or undefined for the default file in the recording's folder. */
export type StateChoice = string | false | undefined;

export interface StatePlace {
  path: string | null;
  /** Why there is no state file; empty if there is one. */
  reason: string;
}

/** Chooses the path of the state file. `data` is the folder or the recording that the daemon serves. */
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
