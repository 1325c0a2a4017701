/** The recording from which events are exported. Its file is read directly, even while an agent is writing it. */
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { type EventFilter, openReader, type RecordingReader } from '../../agent/recording/read/reader.ts';
import {
  createRecordingDictionary,
  type RecordingBlock,
  type RecordingDictionary,
} from '../store/blocks/scanned_block.ts';
import { ExportError, runWithReadErrors } from './errors.ts';

export interface Source {
  readonly path: string;
  readonly reader: RecordingReader;
  readonly dictionary: RecordingDictionary;
  /** Yields blocks of events in the recording's total order. A block may be empty. */
  scan(filter: EventFilter): Generator<RecordingBlock, void>;
  close(): void;
}

/**
 * Opens a recording. `data` is a recording's file or the data folder of an agent. `isNamed` means that the user chose
 * `data`; error messages then do not suggest starting the agent.
 */
export function openSource(data: string, isNamed = true): Source {
  const readStats = (path: string) => runWithReadErrors(path, () => statSync(path, { throwIfNoEntry: false }));
  const stats = readStats(data);
  const isFolder = stats?.isDirectory() ?? false;
  if (!stats && !isNamed)
    throw new ExportError(
      `there is no folder ${data}: start the agent with that --data, or give the folder that it records into`,
    );
  const path = isFolder ? join(data, 'recording.kreplay') : data;
  const imported = join(data, 'imported');
  if (isFolder && !readStats(path) && readStats(imported))
    throw new ExportError(`there is no recording at ${path}: give --recording one of those in ${imported}`);
  if (isFolder && !readStats(path))
    throw new ExportError(
      `there is no recording at ${path}: ${isNamed ? 'give the path of one' : 'start the agent, it creates it'}`,
    );
  const reader = openReader(path, { isForeign: !isFolder });
  const { recordingId, node } = reader.info();
  const { name, file, context } = reader;
  const dictionary = createRecordingDictionary({ recordingId, node, name, file, context });
  return {
    path,
    reader,
    dictionary,
    *scan(filter) {
      for (const block of reader.scan({ filter })) yield { block, dictionary };
    },
    close: () => reader.close(),
  };
}
