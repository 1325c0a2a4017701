/** The three formats of a point in time in a request. */
import { parseDuration } from './duration.ts';

/** An absolute point in time, or a distance back from the time of the request. */
export type TimeExpression = { atNs: bigint } | { backNs: bigint };

export const TIME_FORMATS =
  'must be RFC 3339 (2026-11-20T10:00:00.000000001Z), nanoseconds since the epoch, or a duration back from now (-15m)';

/** Returns the error message for an invalid time in a query. */
export function timeMessage(text: string): string {
  const isBlank = /:\d\d(\.\d+)? \d\d:\d\d$/.test(text);
  return isBlank ? `${TIME_FORMATS}; a + in a URL is a blank, write it as %2B` : TIME_FORMATS;
}

const NS_PER_S = 1_000_000_000n;

/** 2^64 has twenty digits, so no longer number is accepted. */
const NANOSECONDS = /^\d{1,20}$/;
const RFC_3339 =
  /^(?<date>\d{4}-\d\d-\d\d)[Tt](?<hour>\d\d):(?<minute>\d\d):(?<second>\d\d)(?:\.(?<fraction>\d{1,9}))?(?:[Zz]|(?<sign>[+-])(?<offsetHour>\d\d):(?<offsetMinute>\d\d))$/;

export function parseTime(text: string): TimeExpression | undefined {
  if (NANOSECONDS.test(text)) return { atNs: BigInt(text) };
  if (text.startsWith('-')) {
    const backNs = parseDuration(text.slice(1));
    return backNs === undefined ? undefined : { backNs };
  }
  const atNs = parseRfc3339(text);
  return atNs === undefined ? undefined : { atNs };
}

export function resolveTime(time: TimeExpression, nowNs: bigint): bigint {
  return 'atNs' in time ? time.atNs : nowNs - time.backNs;
}

function parseRfc3339(text: string): bigint | undefined {
  const groups = RFC_3339.exec(text)?.groups;
  if (!groups) return undefined;
  const number = (name: string) => Number(groups[name] ?? 0);
  const hour = number('hour');
  const minute = number('minute');
  const second = number('second');
  const offsetHour = number('offsetHour');
  const offsetMinute = number('offsetMinute');
  // RFC 3339 allows leap seconds; the epoch does not count them, so :60 is the second after :59.
  if (hour > 23 || minute > 59 || second > 60 || offsetHour > 23 || offsetMinute > 59) return undefined;
  const midnight_ms = Date.parse(`${groups.date}T00:00:00Z`);
  // Date.parse may read February 31 as a day in March.
  if (Number.isNaN(midnight_ms) || !new Date(midnight_ms).toISOString().startsWith(groups.date!)) return undefined;
  const offset_s = (groups.sign === '-' ? -1 : 1) * (offsetHour * 3600 + offsetMinute * 60);
  const seconds = midnight_ms / 1000 + hour * 3600 + minute * 60 + second - offset_s;
  return BigInt(seconds) * NS_PER_S + BigInt((groups.fraction ?? '').padEnd(9, '0'));
}
