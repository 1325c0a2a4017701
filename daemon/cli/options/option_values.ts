/** Parsers of option values. An invalid value is reported as wrong usage before a request is sent to the daemon. */
import { InvalidArgumentError, Option } from 'commander';
import { createOptionParser, DURATION, POSITIVE_INTEGER } from '../../../agent/config/values.ts';
import { formatMilliseconds } from '../../base/duration.ts';
import { listPossibleNames, parseListItems } from '../../base/list_text.ts';
import { parseTime, TIME_FORMATS, type TimeExpression } from '../../base/time.ts';
import { DAEMON_URLS, DEFAULT_URL, parseDaemonUrl } from '../client/connection.ts';

/** Collects the values of a repeated option. The values are lists, which the daemon parses. */
export function collectLists(value: string, before: string[] = []): string[] {
  return [...before, value];
}

/** Parses a comma-separated list of words; the option may be repeated. */
export function collectWords(value: string, before: string[] = []): string[] {
  return [...before, ...parseListItems(value)];
}

export function time(value: string): TimeExpression {
  const expression = parseTime(value);
  if (!expression) throw new InvalidArgumentError(TIME_FORMATS);
  return expression;
}

/** Checks a time, but returns its text unchanged, because the daemon resolves relative times with its own clock. */
export function timeText(value: string): string {
  time(value);
  return value;
}

/** Parses a list of names with the same rules as the daemon. */
export function collectNames(value: string, before: string[] = []): string[] {
  return [...before, ...listPossibleNames(value)];
}

export const duration = createOptionParser(DURATION);

/** Converts a duration with a unit to decimal milliseconds, the format of the API. */
export function parseDurationMs(value: string): string {
  return formatMilliseconds(duration(value));
}

export const positiveInteger = createOptionParser(POSITIVE_INTEGER);

export function parseWholeNumber(value: string): number {
  return value === '0' ? 0 : positiveInteger(value);
}

function checkDaemonUrl(value: string): string {
  if (!parseDaemonUrl(value)) throw new InvalidArgumentError(`must be ${DAEMON_URLS}`);
  return value;
}

/**
 * Creates the option `--url` for commands that query a daemon. A value from KREPLAY_URL counts as a default and not as
 * a given option, so a command that reads a file ignores it.
 */
export function createUrlOption(): Option {
  const option = new Option('--url <url>', 'address of the daemon: http://HOST:PORT, https://HOST:PORT or unix:/path');
  const url = process.env.KREPLAY_URL || DEFAULT_URL;
  return option.argParser(checkDaemonUrl).default(url, `KREPLAY_URL, else "${DEFAULT_URL}"`);
}
