/** What the agent and the daemon log while they run. What a command says at its start and its end is not of the log. */
import type { Command } from 'commander';
import { type Logger, type LoggerOptions, pino, stdTimeFunctions } from 'pino';
import { Setting } from '../config/setting.ts';
import { printable } from './printable.ts';

const LEVELS = ['trace', 'debug', 'info', 'warn', 'error'];
const FORMATS = ['text', 'json'] as const;

export interface LogFlags {
  logLevel: string;
  /** Text at a terminal, JSON elsewhere, unless told. */
  logFormat?: (typeof FORMATS)[number];
}

export function withLogOptions(command: Command): Command {
  return command
    .addOption(
      new Setting('--log-level <level>', 'least that is logged').choices(LEVELS).default('info').shared().reloaded(),
    )
    .addOption(
      new Setting('--log-format <format>', 'text or JSON (default: text at a terminal)').choices(FORMATS).shared(),
    );
}

/** JSON for machines; `time name level message key=value` for a person. */
export function newLog(name: string, { logLevel, logFormat }: LogFlags, output: NodeJS.WriteStream): Logger {
  const options: LoggerOptions = { name, level: logLevel, timestamp: stdTimeFunctions.isoTime };
  const asText = logFormat === undefined ? output.isTTY : logFormat === 'text';
  return asText ? pino(options, { write: (line) => void output.write(readable(line)) }) : pino(options, output);
}

const LABELS = new Map(Object.entries(pino.levels.labels).map(([value, label]) => [Number(value), label]));

function readable(line: string): string {
  const { time, level, msg, name, pid: _pid, hostname: _hostname, err, ...rest } = JSON.parse(line);
  const values = Object.entries({ ...rest, ...(err && { error: err.message }) });
  const pairs = values.map(
    ([key, value]) => ` ${key}=${printable(typeof value === 'string' ? value : JSON.stringify(value))}`,
  );
  return `${time} ${name} ${LABELS.get(level) ?? level} ${printable(msg)}${pairs.join('')}\n`;
}
