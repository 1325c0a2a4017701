/** Writes the end of each command's help: examples and exit codes, in a uniform format. */
import type { Command } from 'commander';

export interface HelpEnd {
  /** Text that comes before the examples. */
  notes?: string;
  /** Commands as a user types them, without a prompt. */
  examples: readonly string[];
  /** The meaning of each exit code; `other` stands for all codes that are not listed. Default: EXIT_CODES. */
  exitCodes?: Readonly<Record<string, string>>;
}

/** Exit codes that mean the same in most commands. */
export const EXIT_CODES = {
  0: 'success',
  1: 'failure; standard error states the cause',
  2: 'wrong usage or wrong configuration',
} as const;

export function addHelpEnd(command: Command, { notes, examples, exitCodes = EXIT_CODES }: HelpEnd): Command {
  const codes = Object.entries(exitCodes);
  const width = Math.max(...codes.map(([code]) => code.length));
  const parts = [
    ...(notes === undefined ? [] : [notes.trim()]),
    formatPart('Examples', examples),
    formatPart(
      'Exit codes',
      codes.map(([code, meaning]) => `${code.padEnd(width)}  ${meaning}`),
    ),
  ];
  return command.addHelpText('after', `\n${parts.join('\n\n')}`);
}

function formatPart(heading: string, lines: readonly string[]): string {
  return [`${heading}:`, ...lines.map((line) => `  ${line}`)].join('\n');
}
