/** When each node was recorded, by whichever file. */
import type { OpenRecording } from './recording_files.ts';
import type { NodeSpan } from './store.ts';
import { writtenSpan } from './writer_state.ts';

export function spansIn(recordings: readonly OpenRecording[]): NodeSpan[] {
  return recordings.flatMap((recording) => {
    const span = writtenSpan(recording);
    return span ? [{ node: recording.node, ...span }] : [];
  });
}
