import { type Logger, type LoggerOptions, pino, stdTimeFunctions } from 'pino';
import { printable } from './commands/display.ts';

/** JSON for machines; `time level message key=value` for a person at a terminal. */
export function newLog(level: string, output: NodeJS.WriteStream): Logger {
  const options: LoggerOptions = { name: 'kreplay-daemon', level, timestamp: stdTimeFunctions.isoTime };
  return output.isTTY ? pino(options, { write: (line) => void output.write(readable(line)) }) : pino(options, output);
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
