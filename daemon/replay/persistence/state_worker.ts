/** The worker thread that has the state file open. */
import { parentPort, workerData } from 'node:worker_threads';
import { openStateFile, type StateFile, StateFileError } from './state_file.ts';
import type { FromState, ToState } from './state_thread.ts';

const port = parentPort!;

function send(message: FromState): void {
  port.postMessage(message);
}

function open(path: string): StateFile | undefined {
  try {
    return openStateFile(path);
  } catch (error) {
    if (!(error instanceof StateFileError)) throw error;
    send({ kind: 'refused', message: error.message });
    return undefined;
  }
}

const file = open(workerData as string);
if (file) {
  port.on('message', (message: ToState) => {
    if (message.kind === 'close') {
      file.close();
      port.close();
      return;
    }
    try {
      file.write(message.changes);
      send({ kind: 'written' });
    } catch (error) {
      send({ kind: 'failed', message: (error as Error).message });
    }
  });
  send({ kind: 'opened', rows: file.rows });
}
