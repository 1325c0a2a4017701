import { type Logger, type LoggerOptions, pino, stdTimeFunctions } from 'pino';
import { printable } from './commands/display.ts';

export const LOG_FORMATS = ['text', 'json'] as const;
export type LogFormat = (typeof LOG_FORMATS)[number];

export interface LogOptions {
  level: string;
  /** Text at a terminal, JSON elsewhere, unless told. */
  format?: LogFormat | undefined;
}

/** JSON for machines; `time level message key=value` for a person. */
export function newLog({ level, format }: LogOptions, output: NodeJS.WriteStream): Logger {
  const options: LoggerOptions = { name: 'kreplay-daemon', level, timestamp: stdTimeFunctions.isoTime };
  const asText = format === undefined ? output.isTTY : format === 'text';
  return asText ? pino(options, { write: (line) => void output.write(readable(line)) }) : pino(options, output);
}

const LEVELS = new Map(Object.entries(pino.levels.labels).map(([value, label]) => [Number(value), label]));

function readable(line: string): string {
  const { time, level, msg, name: _name, pid: _pid, hostname: _hostname, err, ...rest } = JSON.parse(line);
  const values = Object.entries({ ...rest, ...(err && { error: err.message }) });
  const pairs = values.map(
    ([key, value]) => ` ${key}=${printable(typeof value === 'string' ? value : JSON.stringify(value))}`,
  );
  return `${time} ${LEVELS.get(level) ?? level} ${msg}${pairs.join('')}\n`;
}
