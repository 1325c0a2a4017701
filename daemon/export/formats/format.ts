/** The formats in which events can be exported. */
import { jsonRows } from '../../store/blocks/event_json.ts';
import type { Encoder, EventWriter, Surroundings } from '../encoder.ts';
import { perfettoEncoder } from '../perfetto/trace.ts';
import { bundleWriter } from './bundle.ts';
import { csvEncoder } from './csv.ts';
import { sqliteWriter } from './sqlite.ts';

interface StreamFormat {
  readonly kind: 'stream';
  readonly binary: boolean;
  /** `-` stands for standard output. */
  readonly defaultOutput: string;
  encoder(surroundings: Surroundings): Encoder;
}

interface FileFormat {
  readonly kind: 'file';
  readonly defaultOutput: string;
  /** `path` must be an empty file. */
  writer(path: string, surroundings: Surroundings): EventWriter;
}

export const FORMATS = {
  bundle: { kind: 'file', defaultOutput: 'incident.kreplay', writer: bundleWriter },
  ndjson: { kind: 'stream', binary: false, defaultOutput: '-', encoder: ndjsonEncoder },
  csv: { kind: 'stream', binary: false, defaultOutput: '-', encoder: csvEncoder },
  sqlite: { kind: 'file', defaultOutput: 'incident.sqlite', writer: sqliteWriter },
  perfetto: { kind: 'stream', binary: true, defaultOutput: 'incident.pftrace', encoder: perfettoEncoder },
} as const satisfies Record<string, StreamFormat | FileFormat>;

export type FormatName = keyof typeof FORMATS;

export type Format = StreamFormat | FileFormat;

/** Writes one event per line, in the API's own NDJSON. */
function ndjsonEncoder(): Encoder {
  const { pieces, rest } = jsonRows('\n');
  return {
    head: () => '',
    *pieces(scanned) {
      // The encoder reuses the memory of a piece, which an output may still have to write.
      for (const piece of pieces(scanned)) yield Buffer.from(piece);
    },
    tail: rest,
  };
}
