/** What commands that read a recording by themselves have in common. */
import { type Command, Option } from 'commander';
import { DATA_DEFAULT, openSource, type Source } from '../export/source.ts';

export interface RecordingOptions {
  data: string;
  recording?: string;
}

export function withRecordingOptions(command: Command): Command {
  return command
    .option('--data <folder>', 'folder that an agent records into', DATA_DEFAULT)
    .addOption(new Option('--recording <file>', 'a recording, instead of the one in --data').conflicts('data'));
}

export async function withSource<Result>(
  { data, recording }: RecordingOptions,
  work: (source: Source) => Promise<Result>,
): Promise<Result> {
  const source = openSource(recording ?? data);
  try {
    return await work(source);
  } finally {
    source.close();
  }
}
