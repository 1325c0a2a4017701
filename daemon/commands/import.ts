/** `kreplay import`: recordings of other hosts and incident bundles, for the daemon on this data folder to serve. */
import { Command } from 'commander';
import type { RecordingInfo } from '../../agent/recording/reader.ts';
import { importRecording, listImported } from '../export/imported.ts';
import { DATA_DEFAULT } from '../export/source.ts';
import { formatTime } from './display.ts';
import { newTable, type TableColumn } from './table.ts';

interface Options {
  data: string;
  list: boolean;
}

export function importCommand(): Command {
  return new Command('import')
    .description('add recordings and bundles to a data folder, for its daemon to serve beside its own')
    .argument('[files...]', 'recordings; copied, and left as they are')
    .option('--data <folder>', 'created when it is not there', DATA_DEFAULT)
    .option('--list', 'list what was imported', false)
    .action(runImport);
}

function runImport(files: readonly string[], { data, list }: Options, command: Command): void {
  if (list === files.length > 0) command.error('error: give recordings to import, or --list');
  if (list) process.stdout.write(listing(data));
  for (const file of files) {
    const { path, info, known } = importRecording(file, data);
    const told = known ? `is there already, as ${path}` : `imported as ${path}`;
    process.stdout.write(`kreplay import: ${file} ${told}: ${info.eventCount} events of ${info.node}\n`);
  }
}

type Entry = ReturnType<typeof listImported>[number];

const COLUMNS: readonly TableColumn<Entry>[] = [
  { heading: 'NODE', cell: ({ info }) => info.node },
  { heading: 'EVENTS', cell: ({ info }) => info.eventCount.toString(), align: 'right' },
  { heading: 'FIRST', cell: ({ info }) => timeOf(info, 'firstTimestampNs') },
  { heading: 'LAST', cell: ({ info }) => timeOf(info, 'lastTimestampNs') },
  { heading: 'FILE', cell: ({ path }) => path },
];

function timeOf(info: RecordingInfo, name: 'firstTimestampNs' | 'lastTimestampNs'): string {
  const ns = info[name];
  return ns === null ? '-' : formatTime(ns);
}

function listing(data: string): string {
  return newTable(COLUMNS).lines(listImported(data));
}
