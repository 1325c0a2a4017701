/**
 * Writes a recording with selected events of another recording. The events keep their numbers, so that event ids stay
 * the same. The numbers then have gaps, so segments store the number of every row.
 */
import type { Block, NumberedBlock } from '../../../bpf/schema/block.ts';
import { SEGMENT_ROWS_MAX } from '../codec/encode_segment.ts';
import { runWithRecordingErrors } from '../format/errors.ts';
import { IDS_IN_USE_MAX } from '../format/ids.ts';
import type { ClockStep, Loss } from '../format/losses.ts';
import { NUMBER } from '../format/pieces.ts';
import { EXPORTED_TRANSACTION } from '../format/schema.ts';
import { takeRows } from '../read/assemble_block.ts';
import { openForWriting, type RecordingOrigin, readColumnPlaces } from './create.ts';
import { createDictionaries, type Dictionaries } from './dictionaries.ts';
import { createLossWriter } from './loss_tables.ts';
import { buildWholeRange, createSegmentWriter } from './segment_writer.ts';
import { openStoredDictionaries } from './stored_dictionaries.ts';
import { createSummaryWriter } from './transaction_summaries.ts';

export interface BundleOptions extends RecordingOrigin {
  /** Path of the new file. */
  path: string;
  recordingId: string;
}

export interface BundleWriter extends Pick<Dictionaries, 'nameId' | 'fileId' | 'contextId'> {
  /**
   * Adds events; their dictionary ids must come from this bundle. No number may be added twice.
   * @throws RecordingError recording_full, recording_io_error ...; the file is unusable then
   */
  append(block: NumberedBlock): void;
  recordLoss(loss: Loss): void;
  recordClock(step: ClockStep): void;
  /** Stores which transaction the bundle is about, among others that are in it as well. */
  recordExported(transactionId: string): void;
  close(): void;
}

export function createBundle({ path, ...origin }: BundleOptions): BundleWriter {
  const database = openForWriting(path, origin);
  const stored = openStoredDictionaries(database);
  const dictionaries = createDictionaries({ nextNumber: 0, ...stored.read() }, IDS_IN_USE_MAX);
  const segments = createSegmentWriter(database, readColumnPlaces(database));
  const writeSummaries = createSummaryWriter(database, stored.findTransaction);
  const notes = createLossWriter(database);
  const setExported = database.prepare('INSERT INTO meta VALUES (?, ?)');
  const runGuarded = <T>(work: () => T): T => runWithRecordingErrors(path, work);

  const write = database.transaction((block: Block, numbers: BigUint64Array) => {
    stored.write(dictionaries.take());
    const range = buildWholeRange(block);
    const firstNumber = Number(numbers[0]);
    writeSummaries(block, range, (row) => Number(numbers[row]));
    const ids = stored.nextIds();
    const endNumber = Number(numbers.at(-1)) + 1;
    segments.writeSealed({ block, range, firstNumber, endNumber, idsFrom: ids, idsEnd: ids });
  });

  return {
    nameId: dictionaries.nameId,
    fileId: dictionaries.fileId,
    contextId: dictionaries.contextId,
    append(block) {
      for (let from = 0; from < block.rowCount; from += SEGMENT_ROWS_MAX) {
        const sorted = sortRowsByNumber(block, from, Math.min(block.rowCount, from + SEGMENT_ROWS_MAX));
        sorted.columns.set(NUMBER.name, sorted.numbers);
        runGuarded(() => write.immediate(sorted, sorted.numbers));
        dictionaries.noteCommit();
      }
    },
    recordLoss: (loss) => runGuarded(() => notes.addLoss(loss)),
    recordClock: (step) => runGuarded(() => notes.addClockStep(step)),
    recordExported: (transactionId) => runGuarded(() => void setExported.run(EXPORTED_TRANSACTION, transactionId)),
    close() {
      try {
        runGuarded(() => database.pragma('journal_mode = DELETE'));
      } finally {
        database.close();
      }
    },
  };
}

function sortRowsByNumber(block: NumberedBlock, from: number, to: number): NumberedBlock {
  const { numbers } = block;
  const rows = Uint32Array.from({ length: to - from }, (_, i) => from + i);
  rows.sort((a, b) => (numbers[a]! < numbers[b]! ? -1 : 1));
  return takeRows(block, rows);
}
