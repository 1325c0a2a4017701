/** Prepares the path that an agent records to. */
import { accessSync, constants, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { AgentError } from './process/errors.ts';

/** File name of the node's recording in the data folder. */
export const RECORDING_FILE = 'recording.kreplay';

/** Returns the path of the recording; creates the data folder if it is missing. */
export function prepareRecordingPath(dataFolder: string): string {
  try {
    mkdirSync(dataFolder, { recursive: true });
  } catch (error) {
    throw new AgentError(`${dataFolder} cannot be made (${(error as Error).message}); give another folder with --data`);
  }
  try {
    accessSync(dataFolder, constants.W_OK);
  } catch (error) {
    throw new AgentError(
      `${dataFolder} cannot be written (${(error as Error).message}); run the agent as its owner, or give another folder with --data`,
    );
  }
  return join(dataFolder, RECORDING_FILE);
}
