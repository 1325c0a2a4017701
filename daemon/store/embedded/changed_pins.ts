/**
 * Changes the pins of one recording in its file. If this process's user cannot write the file, as in the packaged
 * service, the agent that records into the folder changes the pins.
 */
import { basename, dirname } from 'node:path';
import { RecordingError } from '../../../agent/recording/format/errors.ts';
import { askForPin } from '../../../agent/recording/pin_socket/ask_for_pin.ts';
import type { PinMessage } from '../../../agent/recording/pin_socket/protocol.ts';
import type { PinRequest } from '../../../agent/recording/retain/pins.ts';
import { pinTransaction, syncPins, unpinTransaction } from '../../../agent/recording/retain/pins.ts';
import { Problem } from '../../base/problem.ts';
import { toFileError, toStoreError } from './failures.ts';
import type { ServedFile } from './served_files.ts';

/** Resolves to true when the pin is on disk, or to false if the file does not contain the transaction. */
export function pinInFile(file: ServedFile, request: PinRequest): Promise<boolean> {
  return change(file, () => pinTransaction(file.path, request) !== undefined, {
    action: 'pin',
    file: basename(file.path),
    ...request,
  });
}

/** Resolves to true when the removal of the pin is on disk, or to false if there was no pin. */
export function unpinInFile(file: ServedFile, transactionId: string): Promise<boolean> {
  return change(file, () => unpinTransaction(file.path, transactionId), {
    action: 'unpin',
    file: basename(file.path),
    transactionId,
  });
}

/**
 * Codes which mean that the file's log or folder is not writable. They do not refer to the file itself, which was read
 * before.
 */
const NOT_WRITABLE: readonly string[] = ['recording_not_writable', 'recording_not_readable'];

async function change(file: ServedFile, work: () => boolean, message: PinMessage): Promise<boolean> {
  try {
    const changed = work();
    if (changed) await syncPins(file.path);
    return changed;
  } catch (error) {
    if (!(error instanceof RecordingError)) throw error;
    if (NOT_WRITABLE.includes(error.code)) return await changeThroughAgent(file, message);
    throw toPinError(file, error);
  }
}

async function changeThroughAgent(file: ServedFile, message: PinMessage): Promise<boolean> {
  const answer = await askForPin(dirname(file.path), message);
  if (typeof answer === 'string')
    throw new Problem(
      'recording_not_writable',
      `${file.path} cannot be written by the daemon's user, and its agent cannot be asked (${answer}): start the agent, or run the daemon as the user that the agent runs as`,
    );
  if ('changed' in answer) return answer.changed;
  if (answer.code === 'not_allowed' || answer.code === 'bad_request')
    throw new Problem(
      'recording_not_writable',
      `${file.path} cannot be written by the daemon's user: ${answer.message}`,
    );
  throw toPinError(file, new RecordingError(answer.code as RecordingError['code'], answer.message));
}

function toPinError(file: ServedFile, error: RecordingError): unknown {
  if (error.code === 'pins_full') return new Problem('pins_full', `${file.path}: ${error.message}`);
  return toStoreError(toFileError(file, error));
}
