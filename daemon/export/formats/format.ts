/** The formats in which events can be exported. */

import { statSync } from 'node:fs';
import { createBundle } from '../../../agent/recording/write/bundle.ts';
import type { FileKind } from '../../../bpf/schema/owner.ts';
import { createJsonRows } from '../../store/blocks/event_json.ts';
import type { Encoder, EventWriter, Surroundings } from '../encoder.ts';
import { createPerfettoEncoder } from '../perfetto/trace.ts';
import { type IdMap, remapBlock } from '../remap.ts';
import { createCsvEncoder } from './csv.ts';
import { openSqliteWriter } from './sqlite.ts';

interface StreamFormat {
  readonly kind: 'stream';
  readonly binary: boolean;
  /** Path of the output if the user gives none; `-` is standard output. */
  readonly defaultOutput: string;
  createEncoder(surroundings: Surroundings): Encoder;
}

interface FileFormat {
  readonly kind: 'file';
  readonly defaultOutput: string;
  /** Opens a writer for the file at `path`, which must exist and be empty. */
  openFileWriter(path: string, surroundings: Surroundings): EventWriter;
}

export const FORMATS = {
  bundle: { kind: 'file', defaultOutput: 'incident.kreplay', openFileWriter: openBundleWriter },
  ndjson: { kind: 'stream', binary: false, defaultOutput: '-', createEncoder: createNdjsonEncoder },
  csv: { kind: 'stream', binary: false, defaultOutput: '-', createEncoder: createCsvEncoder },
  sqlite: { kind: 'file', defaultOutput: 'incident.sqlite', openFileWriter: openSqliteWriter },
  perfetto: { kind: 'stream', binary: true, defaultOutput: 'incident.pftrace', createEncoder: createPerfettoEncoder },
} as const satisfies Record<string, StreamFormat | FileFormat>;

export type FormatName = keyof typeof FORMATS;

export type Format = StreamFormat | FileFormat;

/** Creates an encoder that writes one event per line, in the same NDJSON as the API. */
function createNdjsonEncoder(): Encoder {
  const { encodeChunks, takeRest } = createJsonRows('\n');
  return {
    head: () => '',
    *encodeChunks(scanned) {
      // Copies the chunk, because the encoder reuses its memory while the output may still be writing it.
      for (const chunk of encodeChunks(scanned)) yield Buffer.from(chunk);
    },
    tail: takeRest,
  };
}

/* Writes a bundle: a recording with only the selected events and their texts. Event ids stay the same. */

/** Empty ids of the host, because a bundle must not identify the host beyond its node name. */
const NO_HOST = { bootId: '', machineId: '' };

function openBundleWriter(path: string, surroundings: Surroundings): EventWriter {
  const { dictionary, createdNs, losses, clockSteps, exportedTransaction } = surroundings;
  const { recordingId, node } = dictionary;
  const bundle = runWithoutAdvice(() => createBundle({ path, recordingId, node, ...NO_HOST, createdNs }));
  const ids: IdMap = {
    name: (id) => bundle.nameId(dictionary.name(id)),
    file: (id) => {
      const file = dictionary.file(id);
      return file ? bundle.fileId(file.path, file.kind as FileKind) : 0;
    },
    context: (id) => bundle.contextId(dictionary.context(id)),
  };
  return {
    write({ block }) {
      const own = remapBlock(block, ids);
      runWithoutAdvice(() => bundle.append(own));
    },
    finish() {
      const known = losses();
      const exported = exportedTransaction();
      runWithoutAdvice(() => {
        for (const loss of known) bundle.recordLoss(loss);
        for (const step of clockSteps) bundle.recordClock(step);
        if (exported !== undefined) bundle.recordExported(exported);
      });
    },
    close: () => runWithoutAdvice(bundle.close),
    bytes: () => statSync(path).size,
  };
}

/**
 * Runs work that writes the bundle and does not read the recording. If it fails, throws SQLite's own error, which the
 * caller describes with the target's name. The error around it has advice about a data folder, which does not apply to
 * a bundle.
 */
function runWithoutAdvice<Result>(work: () => Result): Result {
  try {
    return work();
  } catch (error) {
    throw (error as Error).cause ?? error;
  }
}
