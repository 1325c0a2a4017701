/** Says whether journald reads an output, which takes the priority of a line from its beginning: sd-daemon(3). */
import { fstatSync } from 'node:fs';

export function isReadByJournal(output: NodeJS.WriteStream): boolean {
  const { fd } = output as unknown as { fd?: number };
  if (fd === undefined || !process.env.JOURNAL_STREAM) return false;
  const { dev, ino } = fstatSync(fd);
  // The variable is also set if the output is redirected elsewhere, so the output must be compared with it.
  return process.env.JOURNAL_STREAM === `${dev}:${ino}`;
}
