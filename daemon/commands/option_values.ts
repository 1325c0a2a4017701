/** What options take; a value that can not be meant is wrong usage, told before anything is asked of the daemon. */
import { InvalidArgumentError } from 'commander';
import { formatMilliseconds, parseDuration } from '../../agent/recording/duration.ts';
import { parseTime, TIME_FORMATS } from '../query/time.ts';
import { parseDaemonUrl } from './connection.ts';

/** Comma-separated, and the option may be given again. */
export function list(value: string, before: string[] = []): string[] {
  return [...before, ...value.split(',')];
}

export function timeText(value: string): string {
  if (!parseTime(value)) throw new InvalidArgumentError(TIME_FORMATS);
  return value;
}

/** A duration with its unit, as the API's decimal milliseconds. */
export function milliseconds(value: string): string {
  const ns = parseDuration(value);
  if (ns === undefined) throw new InvalidArgumentError('must be a duration with its unit, such as 50us, 2ms or 1.5s');
  return formatMilliseconds(ns);
}

export function positiveInteger(value: string): number {
  if (!/^[1-9]\d{0,9}$/.test(value)) throw new InvalidArgumentError('must be a whole number above 0');
  return Number(value);
}

export function daemonUrl(value: string): string {
  if (!parseDaemonUrl(value)) throw new InvalidArgumentError('must be http://HOST:PORT or unix:/path');
  return value;
}
