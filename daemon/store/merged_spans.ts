/** The span of time that each recording covers on its node. */
import type { OpenRecording } from './recording_files.ts';
import type { NodeSpan } from './store.ts';
import { writtenSpan } from './writer_state.ts';

export function spansIn(recordings: readonly OpenRecording[]): NodeSpan[] {
  return recordings.flatMap((recording) => {
    const span = writtenSpan(recording);
    return span ? [{ node: recording.node, ...span }] : [];
  });
}
