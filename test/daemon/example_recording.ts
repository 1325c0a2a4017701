/** The recording of the examples in the API's document, in a folder of the suite. */
import { writeExampleRecording } from '../../daemon/server/examples/recording.ts';
import { newFolder, recordingPath } from './recorded.ts';

export function exampleRecording(): string {
  const folder = newFolder();
  writeExampleRecording(recordingPath(folder));
  return folder;
}
