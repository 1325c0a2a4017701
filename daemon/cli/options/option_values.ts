/**
 * Parsers of option values. A value that makes no sense is reported as wrong usage before any request is sent to the
 * daemon.
 */
import { InvalidArgumentError, Option } from 'commander';
import { createOptionParser, DURATION, POSITIVE_INTEGER } from '../../../agent/config/values.ts';
import { formatMilliseconds } from '../../base/duration.ts';
import { listPossibleNames, parseListItems } from '../../base/list_text.ts';
import { parseTime, TIME_FORMATS, type TimeExpression } from '../../base/time.ts';
import { DAEMON_URLS, DEFAULT_URL, parseDaemonUrl } from '../client/connection.ts';

/** Collects the lists of a repeated option without parsing them, because the daemon parses them. */
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

/** Returns the text unchanged, because relative times are resolved with the daemon's clock. */
export function timeText(value: string): string {
  time(value);
  return value;
}

/** Parses a list of names as the daemon does. */
export function collectNames(value: string, before: string[] = []): string[] {
  return [...before, ...listPossibleNames(value)];
}

export const duration = createOptionParser(DURATION);

/** Converts a duration with its unit to the API's decimal milliseconds. */
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
 * `--url`, for every command that queries a daemon. KREPLAY_URL sets the default but does not count as a given option,
 * because the variable may also be set for a command that reads a file.
 */
export function createUrlOption(): Option {
  const option = new Option('--url <url>', 'address of the daemon: http://HOST:PORT, https://HOST:PORT or unix:/path');
  const url = process.env.KREPLAY_URL || DEFAULT_URL;
  return option.argParser(checkDaemonUrl).default(url, `KREPLAY_URL, else "${DEFAULT_URL}"`);
}
