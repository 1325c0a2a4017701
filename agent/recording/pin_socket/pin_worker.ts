/**
 * A thread that changes one pin, started by pin_socket.ts. A change may wait for a commit and for the disk; the thread
 * that drains the kernel's rings must not wait.
 */
import { parentPort, workerData } from 'node:worker_threads';
import { RecordingError } from '../format/errors.ts';
import { pinTransaction, syncPins, unpinTransaction } from '../retain/pins.ts';
import type { PinAnswer, PinMessage } from './protocol.ts';

export interface PinWorkerData {
  path: string;
  message: PinMessage;
}

parentPort!.postMessage(await answer(workerData as PinWorkerData));

async function answer({ path, message }: PinWorkerData): Promise<PinAnswer> {
  try {
    const changed =
      message.action === 'pin'
        ? pinTransaction(path, message) !== undefined
        : unpinTransaction(path, message.transactionId);
    if (changed) await syncPins(path);
    return { changed };
  } catch (error) {
    if (!(error instanceof RecordingError)) throw error;
    return { code: error.code, message: error.message };
  }
}
