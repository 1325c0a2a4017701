/**
 * Renders a run as Markdown for the job summary of GitHub Actions, and appends it to the summary file. Names, commands
 * and output lines are untrusted, so every character with a meaning in Markdown or HTML is written as a numeric
 * character reference.
 */
import { closeSync, constants, openSync, writeSync } from 'node:fs';
import { escapeControls } from '../../../agent/output/printable.ts';
import { formatClosingLine } from './closing_line.ts';
import type { OutputLines, RunResult } from './result.ts';
import { formatShortDuration } from './summary.ts';

/** Maximum length of a text in the summary, because a command or a path may fill pages. */
const TEXT_CHARACTERS_MAX = 500;

/** Appends the summary to the file at `path`. Returns why this failed; undefined if it succeeded. */
export function appendStepSummary(path: string, result: RunResult): string | undefined {
  try {
    // O_NONBLOCK: opening a pipe that nobody reads must not block the job.
    const flags = constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NONBLOCK;
    const file = openSync(path, flags, 0o644);
    try {
      writeSync(file, `${buildStepSummary(result)}\n`);
    } finally {
      closeSync(file);
    }
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

export function buildStepSummary(result: RunResult): string {
  const { verdict, reasons, settings, ended, figures, last_lines } = result;
  const closing = formatClosingLine(result);
  return [
    `### kreplay run: ${formatCode(settings.transaction_id)}: ${verdict}`,
    ...(ended ? [`${formatCode(settings.command.join(' '))} ${escapeMarkdown(formatEnding(ended))}`] : []),
    ...(closing === undefined ? [] : [`**${escapeMarkdown(closing)}**`]),
    ...(reasons.length > 0 ? [reasons.map((reason) => `- ${escapeMarkdown(reason)}`).join('\n')] : []),
    ...buildFeltTable(figures?.felt ?? []),
    ...last_lines.map(buildLastLines),
    '',
  ].join('\n\n');
}

function formatEnding({ code, duration_ns }: NonNullable<RunResult['ended']>): string {
  return `ended with ${code} after ${formatShortDuration(duration_ns)}.`;
}

function buildFeltTable(felt: NonNullable<RunResult['figures']>['felt']): string[] {
  if (felt.length === 0) return [];
  const rows = felt.map(({ took_ns, target_ns, op, path, role }) =>
    [formatShortDuration(took_ns), formatShortDuration(target_ns), op, path, role]
      .map((cell, column) => (column < 2 ? escapeMarkdown(cell) : formatCode(cell)))
      .join(' | '),
  );
  const heading = 'took | planned | call | file | thread';
  const table = [heading, '---: | ---: | --- | --- | ---', ...rows].map((row) => `| ${row} |`);
  return [['The slowest calls that the command felt:', '', ...table].join('\n')];
}

function buildLastLines({ output, lines }: OutputLines): string {
  return [`The last lines of the command's ${output}:`, '', '<pre>', ...lines.map(escapeMarkdown), '</pre>'].join('\n');
}

function formatCode(text: string): string {
  return text === '' ? '' : `<code>${escapeMarkdown(text)}</code>`;
}

/**
 * Replaces all characters except letters, digits, spaces and a few signs by numeric character references, which have no
 * meaning in Markdown or HTML.
 */
function escapeMarkdown(text: string): string {
  const short = text.length > TEXT_CHARACTERS_MAX ? `${text.slice(0, TEXT_CHARACTERS_MAX)}…` : text;
  return escapeControls(short.toWellFormed()).replace(
    /[^\p{L}\p{M}\p{N} ,/…]/gu,
    (character) => `&#${character.codePointAt(0)};`,
  );
}
