/** The recording that events are taken from: read directly, also while an agent writes it. */
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { type EventFilter, openReader, type RecordingReader } from '../../agent/recording/reader.ts';
import type { Dictionary, ScannedBlock } from '../store/store.ts';
import { ExportError, withReadErrors } from './errors.ts';

export type Loss = ReturnType<RecordingReader['losses']>[number];
export type ClockStep = ReturnType<RecordingReader['clockSteps']>[number];

export interface Source {
  readonly path: string;
  readonly reader: RecordingReader;
  readonly dictionary: Dictionary;
  /** In the total order; a block may be empty. */
  scan(filter: EventFilter): Generator<ScannedBlock, void>;
  close(): void;
}

/** `data`: a folder that an agent records into, or a recording. */
export function openSource(data: string): Source {
  const statsOf = (path: string) => withReadErrors(path, () => statSync(path, { throwIfNoEntry: false }));
  const isFolder = statsOf(data)?.isDirectory() ?? false;
  const path = isFolder ? join(data, 'recording.kreplay') : data;
  const imported = join(data, 'imported');
  if (isFolder && !statsOf(path) && statsOf(imported))
    throw new ExportError(`there is no recording at ${path}: give --recording one of those in ${imported}`);
  const reader = openReader(path);
  const { recordingId, node } = reader.info();
  const dictionary = { recordingId, node, name: reader.name, file: reader.file, context: reader.context };
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
