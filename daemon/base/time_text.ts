/**
 * Times as text: RFC 3339, in UTC and with all nine digits of the nanoseconds, so that a time of an answer can be
 * pasted into a query.
 *
 * Every 64-bit number of nanoseconds, signed or not, is in a year of four digits: 1677 to 2554.
 */

const NS_PER_S = 1_000_000_000n;
const MS_PER_S = 1_000;

/** The first second of the year 0, the first year of RFC 3339. */
const FIRST_S = -62_167_219_200n;
/** The first second after the year 9999, the last year of RFC 3339. */
const END_S = 253_402_300_800n;

/**
 * Formats nanoseconds since the epoch. A time outside of the years 0 to 9999 is formatted as a plain number, because
 * RFC 3339 has no other years.
 */
export function formatTime(ns: bigint): string {
  const second = floorToSecond(ns);
  return second < FIRST_S || second >= END_S ? ns.toString() : joinTime(formatSecond(second), ns - second * NS_PER_S);
}

/**
 * Returns a function that works like `formatTime`, but is faster if a time is in the same second as the time of the
 * previous call.
 */
export function createTimeFormatter(): (ns: bigint) => string {
  let text = '';
  let startNs: bigint | undefined;
  return (ns) => {
    const belowNs = startNs === undefined ? -1n : ns - startNs;
    if (belowNs >= 0n && belowNs < NS_PER_S) return joinTime(text, belowNs);
    const second = floorToSecond(ns);
    if (second < FIRST_S || second >= END_S) return formatTime(ns);
    startNs = second * NS_PER_S;
    text = formatSecond(second);
    return joinTime(text, ns - startNs);
  };
}

/**
 * Returns the second that contains a time. Division truncates towards zero, so a time before the epoch needs a
 * correction.
 */
function floorToSecond(ns: bigint): bigint {
  return ns / NS_PER_S - (ns % NS_PER_S < 0n ? 1n : 0n);
}

function formatSecond(second: bigint): string {
  return new Date(Number(second) * MS_PER_S).toISOString().slice(0, -'000Z'.length);
}

const joinTime = (second: string, belowNs: bigint) => `${second}${belowNs.toString().padStart(9, '0')}Z`;

/** Name of the field with the text of a time: `timestamp` for `timestamp_ns`, and `from_time` for `from`. */
export type TimeTextName<Name extends string> = Name extends `${infer Base}_ns` ? Base : `${Name}_time`;

const UNIT = '_ns';

export function nameTimeText<Name extends string>(name: Name): TimeTextName<Name> {
  const text = name.endsWith(UNIT) ? name.slice(0, -UNIT.length) : `${name}_time`;
  return text as TimeTextName<Name>;
}

/** Times of an answer, in nanoseconds since the epoch; null for a time that does not exist. */
type Times = Record<string, bigint | null>;

type TimesWithTexts<Given extends Times> = Given & {
  [Name in keyof Given & string as TimeTextName<Name>]: Given[Name] extends bigint ? string : string | null;
};

/** Returns the times with an additional field for each of them: the same time as text. */
export function addTimeTexts<Given extends Times>(times: Given): TimesWithTexts<Given> {
  const fields = Object.entries(times).flatMap(([name, ns]) => [
    [name, ns],
    [nameTimeText(name), ns === null ? null : formatTime(ns)],
  ]);
  return Object.fromEntries(fields);
}
