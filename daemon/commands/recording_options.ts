/** What commands that read a recording by themselves have in common. */
import { type Command, InvalidArgumentError, Option } from 'commander';
import { openSource, type Source } from '../export/source.ts';
import { DATA_DEFAULT } from './option_values.ts';

export interface RecordingOptions {
  data: string;
  recording?: string;
}

export function withRecordingOptions(command: Command): Command {
  return command
    .option('--data <folder>', 'folder that an agent records into', DATA_DEFAULT)
    .addOption(
      new Option('--recording <file>', 'a recording, instead of the one in --data')
        .conflicts('data')
        .argParser(oneFile),
    );
}

/** `kreplay daemon` takes several: that only the last one is read would go unnoticed. */
function oneFile(value: string, before: string | undefined): string {
  if (before !== undefined) throw new InvalidArgumentError('only one can be read: give it once');
  return value;
}

export async function withSource<Result>(
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
