/**
 * Exports events of a recording: scans, redacts and writes the events. The output file gets its name only when it is
 * complete.
 */
import { dirname } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import type { Loss } from '../../../agent/recording/format/losses.ts';
import type { RecordingBlock, RecordingDictionary } from '../../store/blocks/scanned_block.ts';
import type { Encoder, EventWriter, Surroundings } from '../encoder.ts';
import { ExportError, Interrupted, toWriteError } from '../errors.ts';
import type { Format } from '../formats/format.ts';
import { createHiddenFile, refuseTaken } from '../new_file.ts';
import { createStandardOutput, type Output, openFileOutput } from '../output.ts';
import type { Source } from '../source.ts';
import { createRedaction, type Redaction } from './redaction.ts';
import { type ExportSelection, listLosses, selectClockSteps } from './selection.ts';

export const STANDARD_OUTPUT = '-';

export interface ExportOptions {
  source: Source;
  selection: ExportSelection;
  format: Format;
  /** A path, or `-` for standard output. */
  output: string;
  force: boolean;
  redact: boolean;
  /** Aborts the export. An aborted export leaves no file behind. */
  signal: AbortSignal;
  onProgress(done: { events: number; bytes: number }): void;
}

export interface ExportSummary {
  events: number;
  bytes: number;
  /** Number of events in the window that are missing from the recording. */
  lost: number;
  /** Number of losses that overlap the window; the number of lost events may be unknown for some losses. */
  gaps: number;
}

export async function exportEvents(options: ExportOptions): Promise<ExportSummary> {
  if (options.output === STANDARD_OUTPUT) return writeEvents(options, STANDARD_OUTPUT);
  refuseTaken(options.output, options);
  const file = createHiddenFile(dirname(options.output), options.output);
  try {
    const summary = await writeEvents(options, file.path);
    file.show(options.output, options);
    return summary;
  } catch (error) {
    throw toWriteError(error, options.output);
  } finally {
    file.discard();
  }
}

async function writeEvents(options: ExportOptions, path: string): Promise<ExportSummary> {
  const { source, selection, signal, onProgress } = options;
  // Calls in progress are read before the events. A call that ends in between is then in both lists; in the other
  // order, it could be missing from both.
  const unended = source.reader.unended();
  const losses = () => listLosses(source, selection, unended).map(nameLoss);
  const clockSteps = selectClockSteps(source, selection.window);
  const { createdNs } = source.reader.info();
  const { dictionary, blocks, nameTransaction, nameLoss } = chooseBlocks(options);
  const { transactionId } = selection;
  const exportedTransaction = () => (transactionId === undefined ? undefined : nameTransaction(transactionId));
  let writer: EventWriter | undefined;
  let events = 0;
  try {
    for (const scanned of blocks) {
      if (signal.aborted) throw new Interrupted();
      // The scan yields empty blocks while it searches for matching events.
      if (scanned.block.rowCount > 0) {
        const firstNs = (scanned.block.columns.get('timestamp_ns') as BigUint64Array)[0]!;
        writer ??= openEventWriter(options, path, {
          dictionary,
          createdNs,
          firstNs,
          losses,
          clockSteps,
          exportedTransaction,
        });
        await writer.write(scanned);
        events += scanned.block.rowCount;
        onProgress({ events, bytes: writer.bytes() });
      }
      // Lets the event loop handle signals between blocks.
      await setImmediate();
    }
    if (!writer) throw createEmptyExportError(source, losses());
    await writer.finish();
  } finally {
    writer?.close();
  }
  const counts = losses().map(({ count }) => count);
  return { events, bytes: writer.bytes(), lost: counts.reduce((sum, count) => sum + count, 0), gaps: counts.length };
}

function createEmptyExportError({ path }: Source, losses: readonly Loss[]): ExportError {
  const isDamaged = losses.some(({ cause }) => cause === 'damaged');
  if (isDamaged) return new ExportError(`${path}: it is damaged, its events cannot be read: nothing was exported`);
  return new ExportError(`${path} has no such events: nothing was exported`);
}

interface ChosenBlocks {
  dictionary: RecordingDictionary;
  blocks: Iterable<RecordingBlock>;
  /** Returns the id that a transaction has in the export. */
  nameTransaction(id: string): string;
  /** Returns the loss with the names that its owner has in the export. */
  nameLoss(loss: Loss): Loss;
}

function chooseBlocks({ source, selection, redact }: ExportOptions): ChosenBlocks {
  const blocks = source.scan(selection.filter);
  if (!redact) {
    return { dictionary: source.dictionary, blocks, nameTransaction: (id) => id, nameLoss: (loss) => loss };
  }
  const redaction = createRedaction(source.dictionary);
  return {
    dictionary: redaction.dictionary,
    blocks: redactBlocks(blocks, redaction),
    nameTransaction: redaction.redactTransactionId,
    nameLoss: redaction.redactLoss,
  };
}

function* redactBlocks(blocks: Iterable<RecordingBlock>, { redact }: Redaction): Generator<RecordingBlock, void> {
  for (const scanned of blocks) yield redact(scanned);
}

function openEventWriter(
  { format, output, signal }: ExportOptions,
  path: string,
  surroundings: Surroundings,
): EventWriter {
  if (format.kind === 'file') return format.openFileWriter(path, surroundings);
  const target = path === STANDARD_OUTPUT ? createStandardOutput(signal) : openFileOutput(path, output);
  return createStreamWriter(target, format.createEncoder(surroundings));
}

function createStreamWriter(output: Output, encoder: Encoder): EventWriter {
  let begun = false;
  return {
    async write(scanned) {
      if (!begun) await output.write(encoder.head());
      begun = true;
      for (const chunk of encoder.encodeChunks(scanned)) await output.write(chunk);
    },
    finish: () => output.write(encoder.tail()),
    close: output.close,
    bytes: output.bytes,
  };
}
