/** Reads files that are dropped or chosen. */
import { type Compared, readReport } from '../../../run/report/difference.ts';
import { bytesText } from '../../numbers/amounts.ts';
import { shownName } from '../names.ts';

export interface ReportFile {
  /** Two files may have one name. */
  key: number;
  name: string;
  report: Compared;
}

/** A report of a hundred thousand paths has some 40 MB. */
const BYTES_MAX = 64 * 2 ** 20;
const FILES_MAX = 100;

let keyCount = 0;

export async function readFiles(files: readonly File[]): Promise<{ reports: ReportFile[]; problems: string[] }> {
  const [reports, problems]: [ReportFile[], string[]] = [[], []];
  for (const file of files.slice(0, FILES_MAX)) {
    const read = await readFile(file);
    if ('problem' in read) problems.push(`${shownName(file.name)} ${shownName(read.problem)}`);
    else reports.push({ key: keyCount++, name: file.name, report: read.report });
  }
  if (files.length > FILES_MAX) problems.push(`only the first ${FILES_MAX} of ${files.length} files were read`);
  return { reports, problems };
}

async function readFile(file: File): Promise<ReturnType<typeof readReport>> {
  if (file.size > BYTES_MAX)
    return { problem: `has ${bytesText(file.size)}, which is no report of kreplay run: it was not read` };
  try {
    return readReport(await file.text());
  } catch (error) {
    // A folder is a file that cannot be read.
    return { problem: `cannot be read: ${error instanceof Error ? error.message : String(error)}` };
  }
}
