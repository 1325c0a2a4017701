/** `kreplay import`: copies bundles and recordings of other hosts into a data folder that a daemon serves. */
import { Command } from 'commander';
import { addDataFolderOption } from '../../../agent/config/configuration.ts';
import { addHelpEnd } from '../../../agent/config/help.ts';
import { escapeControls } from '../../../agent/output/printable.ts';
import type { RecordingInfo } from '../../../agent/recording/read/reader.ts';
import { formatTime } from '../../base/time_text.ts';
import { importRecording, type ListedImport, listImported } from '../../export/incident/imported.ts';
import { createTextTable, type TextColumn } from '../print/table.ts';

interface Options {
  data: string;
  list: boolean;
}

export function createImportCommand(): Command {
  const command = new Command('import')
    .description('add recordings and bundles to a data folder, whose daemon then serves them too')
    .argument('[files...]', 'recordings to copy; the originals stay as they are');
  addDataFolderOption(command, 'folder to import into; created if it does not exist')
    .option('--list', 'list the imported recordings', false)
    .action(runImport);
  return addHelpEnd(command, {
    examples: ['kreplay import incident.kreplay --data ./data', 'kreplay import --list'],
  });
}

function runImport(files: readonly string[], { data, list }: Options, command: Command): void {
  if (list === files.length > 0) command.error('error: give recordings to import, or --list');
  if (list) process.stdout.write(formatListing(data));
  for (const file of files) {
    const { path, info, known } = importRecording(file, data);
    const told = known ? `is there already, as ${path}` : `imported as ${path}`;
    const what = escapeControls(`${file} ${told}: ${info.eventCount} events of ${info.node}`);
    process.stdout.write(`kreplay import: ${what}\n`);
  }
}

const NONE = '-';

const COLUMNS: readonly TextColumn<ListedImport>[] = [
  { heading: 'NODE', cell: createInfoCell(({ node }) => node) },
  { heading: 'EVENTS', cell: createInfoCell(({ eventCount }) => eventCount.toString()), align: 'right' },
  { heading: 'FIRST', cell: createInfoCell(({ firstTimestampNs: ns }) => (ns === null ? NONE : formatTime(ns))) },
  { heading: 'LAST', cell: createInfoCell(({ lastTimestampNs: ns }) => (ns === null ? NONE : formatTime(ns))) },
  { heading: 'FILE', cell: ({ path }) => path },
  { heading: 'ERROR', cell: ({ info }) => (info instanceof Error ? info.message : '') },
];

function createInfoCell(text: (info: RecordingInfo) => string): (entry: ListedImport) => string {
  return ({ info }) => (info instanceof Error ? NONE : text(info));
}

function formatListing(data: string): string {
  return createTextTable(COLUMNS).lines(listImported(data));
}
