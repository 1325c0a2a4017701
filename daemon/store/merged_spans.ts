/** When each node was recorded, by whichever file. */
import { withFailuresOf } from './failures.ts';
import type { OpenRecording } from './recording_files.ts';
import type { NodeSpan } from './store.ts';

export function spansIn(recordings: readonly OpenRecording[]): NodeSpan[] {
  return recordings.flatMap(({ file, reader, node }) => {
    const span = withFailuresOf(file, () => reader.recordedSpan());
    if (!span) return [];
    const { fromNs, toNs, end } = span;
    return [{ node, fromNs, toNs, end: end === 'unsaid' && file.source === 'live' ? ('open' as const) : end }];
  });
}
