/**
 * The log of the running agent and daemon. Lines that a command prints when it starts and ends are not part of the log.
 */
import type { Command } from 'commander';
import { type Logger, type LoggerOptions, pino, stdTimeFunctions } from 'pino';
import { Setting } from '../config/setting.ts';
import { createChoiceSchema } from '../config/values.ts';
import { isReadByJournal } from './journal.ts';
import { escapeControls } from './printable.ts';

const LEVELS = ['trace', 'debug', 'info', 'warn', 'error'];
const FORMATS = ['text', 'json', 'journal'] as const;

export interface LogFlags {
  logLevel: string;
  /** Format of the log. Default: text at a terminal, `journal` if the journal reads the log, and JSON elsewhere. */
  logFormat?: (typeof FORMATS)[number];
}

export function addLogOptions(command: Command): Command {
  return command
    .addOption(
      new Setting('--log-level <level>', 'lowest level to log')
        .takes(createChoiceSchema(LEVELS))
        .default('info')
        .shared()
        .reloaded(),
    )
    .addOption(
      new Setting(
        '--log-format <format>',
        'format of the log (default: text on a terminal, journal for journald, else json)',
      )
        .takes(createChoiceSchema(FORMATS))
        .shared(),
    );
}

/**
 * Creates the log. Its formats are JSON for machines, `time name level message key=value` for people, and a format for
 * journald, which adds time and name itself and reads the level as in sd-daemon(3).
 */
export function createLog(name: string, { logLevel, logFormat }: LogFlags, output: NodeJS.WriteStream): Logger {
  const options: LoggerOptions = { name, level: logLevel, timestamp: stdTimeFunctions.isoTime };
  const format = logFormat ?? chooseLogFormat(output);
  if (format === 'json') return pino(options, output);
  const show = format === 'text' ? formatTextLine : formatJournalLine;
  return pino(options, { write: (line) => void output.write(show(line)) });
}

function chooseLogFormat(output: NodeJS.WriteStream): LogFlags['logFormat'] {
  if (output.isTTY) return 'text';
  return isReadByJournal(output) ? 'journal' : 'json';
}

const LABELS = new Map(Object.entries(pino.levels.labels).map(([value, label]) => [Number(value), label]));

/** Priorities of sd-daemon(3), by pino's level names. */
const PRIORITIES: Readonly<Record<string, number>> = { error: 3, warn: 4, info: 6, debug: 7, trace: 7 };

function formatJournalLine(line: string): string {
  const { level } = JSON.parse(line);
  return `<${PRIORITIES[LABELS.get(level)!] ?? 3}>${formatMessage(line)}`;
}

function formatTextLine(line: string): string {
  const { time, level, name } = JSON.parse(line);
  return `${time} ${name} ${LABELS.get(level) ?? level} ${formatMessage(line)}`;
}

function formatMessage(line: string): string {
  const {
    time: _time,
    level: _level,
    msg,
    name: _name,
    pid: _pid,
    hostname: _hostname,
    err,
    ...rest
  } = JSON.parse(line);
  const values = Object.entries({ ...rest, ...(err && { error: err.message }) });
  const pairs = values.map(
    ([key, value]) => ` ${key}=${escapeControls(typeof value === 'string' ? value : JSON.stringify(value))}`,
  );
  return `${escapeControls(msg)}${pairs.join('')}\n`;
}
