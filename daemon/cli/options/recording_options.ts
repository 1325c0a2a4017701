/** The options of commands that read a recording's file directly, without a daemon. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import { addDataFolderOption } from '../../../agent/config/configuration.ts';
import { openSource, type Source } from '../../export/source.ts';

export interface RecordingOptions {
  data: string;
  recording?: string;
}

export function addRecordingOptions(command: Command): Command {
  return addDataFolderOption(command, 'folder that an agent records into').addOption(
    new Option('--recording <file>', 'recording to read, instead of the one in --data')
      .conflicts('data')
      .argParser(checkSingleFile),
  );
}

/**
 * Refuses a second file. Users may expect several files to work, as they do for `kreplay daemon`, but only one would be
 * read.
 */
function checkSingleFile(value: string, before: string | undefined): string {
  if (before !== undefined) throw new InvalidArgumentError('only one can be read: give it once');
  return value;
}

export async function runWithSource<Result>(
  { data, recording }: RecordingOptions,
  work: (source: Source) => Promise<Result>,
): Promise<Result> {
  const source = openSource(recording ?? data, recording !== undefined);
  try {
    return await work(source);
  } finally {
    source.close();
  }
}
