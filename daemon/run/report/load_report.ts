import { closeSync, fstatSync, openSync, readSync } from 'node:fs';
import { reportCall, reportHeader } from '../format/report_file.ts';
import { type CallReport, createEmptyReport, readReport } from './read_report.ts';

/** Maximum number of calls that are read from a report (256 MiB). Further calls are only counted, in `leftOut`. */
const CALLS_MAX = 4_194_304;

export interface LoadedReport {
  calls: CallReport;
  leftOut: number;
}

/** Loads a report. Returns an empty report if the helper failed before it created the file. */
export function loadReport(path: string, eventCount: number): LoadedReport {
  let file: number;
  try {
    file = openSync(path, 'r');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { calls: createEmptyReport(), leftOut: 0 };
    throw error;
  }
  try {
    const { size } = fstatSync(file);
    const limit = reportHeader.size + CALLS_MAX * reportCall.size;
    const bytes = Buffer.alloc(Math.min(size, limit));
    const read = readSync(file, bytes, 0, bytes.length, 0);
    const leftOut = Math.floor(Math.max(size - limit, 0) / reportCall.size);
    return { calls: readReport(bytes.subarray(0, read), eventCount), leftOut };
  } finally {
    closeSync(file);
  }
}
