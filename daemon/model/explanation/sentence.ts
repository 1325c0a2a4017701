/** Puts an explanation into a sentence: the page, the API and `kreplay show` begin with it. */

import type { Device } from '../lanes/model.ts';
import { formatQuantity } from '../wording/amounts.ts';
import { formatShortDuration, groupDigits } from '../wording/exact_times.ts';
import { formatBursts } from './bursts.ts';
import type { CallGroup, Explanation } from './explain.ts';

/** Maximum number of kinds of failed calls that are named. */
const FAILURES_MAX = 2;

/**
 * If most of the time is not recorded, the wait of calls is described only if the calls took at least this share of the
 * time: waits of shorter calls explain little.
 */
const LONG_SHARE = 0.1;

/** Function that makes a recorded name safe to read. */
type Shown = (name: string) => string;

/** Events that an explanation lacks. */
export interface Missing {
  /** Whether some requests of others were not read. */
  isOthersCut: boolean;
  /** Number of calls of the transactions that have begun but not ended. */
  inProgressCount: number;
  /** Whether events of the transactions may be missing for another reason. */
  isIncomplete: boolean;
}

export function findMissing(coverage: CoverageFacts, isOthersCut: boolean): Missing {
  const inProgressCount = Number(coverage.in_progress?.count ?? 0);
  return { isOthersCut, inProgressCount, isIncomplete: !coverage.complete };
}

/** The part of a coverage that the sentence needs. */
interface CoverageFacts {
  complete: boolean;
  in_progress?: { count: number | bigint } | undefined;
}

/**
 * Builds, for example, `order-77 of shop: 231.9 of 233.1 ms in one fdatasync of index.db, mostly waiting in vda's
 * queue; backup had 40 requests on vda meanwhile.` `name` is the name of the transaction, already safe to read.
 */
export function describeExplanation(
  explanation: Explanation | null,
  name: string,
  shown: Shown,
  missing: Missing,
): string {
  const gaps = describeMissing(missing);
  if (!explanation) return [`Nothing that ${name} itself did is here.`, ...gaps].join(' ');
  const { service, breakdown } = explanation;
  const whose = `${name} of ${shown(service)}`;
  const rest = [...describeFailures(explanation, shown), ...gaps];
  if (breakdown.durationNs === 0) return [`${whose} took 0 ns.`, ...rest].join(' ');
  const time = describeTime(explanation, shown, missing.isOthersCut);
  return [`${whose}: ${describeBursts(explanation)}${time}.`, ...rest].join(' ');
}

function describeMissing({ inProgressCount, isIncomplete }: Missing): string[] {
  if (inProgressCount > 0)
    return [`${formatQuantity(inProgressCount, 'call')} ${inProgressCount === 1 ? 'has' : 'have'} not ended yet.`];
  return isIncomplete ? ['Events of this time are missing.'] : [];
}

/**
 * Builds the sentence for a picture that lacks events of its transactions. The sentence names no reasons for the
 * waiting, because the missing events may show other reasons.
 */
export function describeFirstEvents(count: number, eventCount: number, name: string): string {
  return `The first ${groupDigits(count)} of ${formatQuantity(eventCount, 'event')} of ${name}: what it waited for is not known yet.`;
}

function describeBursts({ bursts }: Explanation): string {
  return bursts.length < 2 ? '' : `${formatBursts(bursts)}, as when an id is used again; `;
}

/** Describes the longest kind of time: calls, requests outside of calls, or time that is not recorded. */
function describeTime(explanation: Explanation, shown: Shown, isOthersCut: boolean): string {
  const { breakdown, calls, outside, most } = explanation;
  const { durationNs, parts } = breakdown;
  const others = describeNeighbours(explanation, shown, isOthersCut);
  if (most === 'outside') {
    const place = formatDevice(outside!, explanation, shown);
    const time = formatPart(parts.request, durationNs);
    return `${time} with requests to ${place} under way outside its calls, for which it may have waited${others}`;
  }
  const inCalls = calls && describeCalls(calls, shown);
  if (calls && most === 'calls')
    return `${formatPart(calls.timeNs, durationNs)} in ${inCalls}${describeWait(explanation, shown)}${others}`;
  const untraced = `${formatPart(parts.untraced, durationNs)} on a CPU, or on something that is not recorded`;
  if (!calls) return untraced;
  const isLong = calls.timeNs >= LONG_SHARE * durationNs;
  const more = isLong ? `${describeWait(explanation, shown)}${others}` : '';
  return `${untraced}; ${formatShortDuration(calls.timeNs)} in ${inCalls}${more}`;
}

/** Formats the name of a device, with its node if the transaction has events of several nodes. */
function formatDevice({ name, node }: Device, { nodeCount }: Explanation, shown: Shown): string {
  const place = name === null ? 'a device that is not known' : shown(name);
  return nodeCount > 1 ? `${place} of ${shown(node)}` : place;
}

const ONE_UNIT = /^([\d. ]+) (ns|µs|ms|s)$/;

/** Formats `231.9 of 233.1 ms`; the unit of the part is left out if the whole has the same unit. */
function formatPart(partNs: number, wholeNs: number): string {
  const [part, whole] = [formatShortDuration(partNs), formatShortDuration(wholeNs)];
  const [, digits, unit] = ONE_UNIT.exec(part) ?? [];
  return `${unit !== undefined && whole.endsWith(` ${unit}`) && ONE_UNIT.test(whole) ? digits : part} of ${whole}`;
}

function describeCalls(calls: CallGroup, shown: Shown): string {
  const { call, file, fileCount, unknownComms, count, longest } = calls;
  const name = shown(call ?? 'call');
  const isOnePlace = fileCount + unknownComms.length === 1;
  const some = `${count === 1 ? `one ${name}` : formatQuantity(count, name)} ${describePlaces(calls, shown)}`;
  if (count === 1) return some;
  const time = formatShortDuration(longest.durationNs);
  if (isOnePlace && call !== null) return `${some}, up to ${time} each`;
  const ofFile = longest.file === null ? `by ${shown(longest.comm)}` : `of ${formatFile(longest.file, shown)}`;
  return file !== null || isOnePlace
    ? `${some}, the longest ${time} in one ${shown(longest.call)}`
    : `${some}, the longest ${time} in one ${shown(longest.call)} ${ofFile}`;
}

/**
 * Names the file of the calls, or the program of the calls whose file is not known. Several files or programs are not
 * named but counted.
 */
function describePlaces({ file, fileCount, unknownComms }: CallGroup, shown: Shown): string {
  if (file !== null) return `of ${formatFile(file, shown)}`;
  const programs =
    unknownComms.length === 1 ? `by ${shown(unknownComms[0]!)}` : `by ${groupDigits(unknownComms.length)} programs`;
  if (fileCount === 0) return programs;
  const files = `of ${formatQuantity(fileCount, 'file')}`;
  return unknownComms.length === 0 ? files : `${files} and others that are not known`;
}

/** Formats the last part of a path, or the whole path if it has no last part. */
const formatFile = (path: string, shown: Shown) => shown(path.replace(/^.*\/(?=[^/])/, ''));

function describeWait(explanation: Explanation, shown: Shown): string {
  const { part, timeNs, device, deviceNs, isInferred } = explanation.wait!;
  const callsNs = explanation.calls!.timeNs;
  if (2 * timeNs < callsNs || part === 'write') return '';
  if (part === 'sync') return ', mostly with no request of its own under way';
  const isOneDevice = device !== null && 2 * deviceNs >= callsNs;
  const place = isOneDevice ? formatDevice(device, explanation, shown) : 'several devices';
  if (isInferred) return `, mostly while ${place} had requests with its data, for which it may have waited`;
  if (part === 'service') return `, mostly ${place} at work on its requests`;
  const isShort = isOneDevice && explanation.nodeCount === 1;
  return `, mostly waiting in ${isShort ? `${place}'s queue` : `the queue of ${place}`}`;
}

/**
 * Names the largest neighbour on the device that was waited for; if this device is not known, the largest on any
 * device.
 */
function describeNeighbours(explanation: Explanation, shown: Shown, isOthersCut: boolean): string {
  const { neighbours, wait, outside, most } = explanation;
  const waited = most === 'outside' ? outside : wait?.device;
  const place = waited ?? neighbours[0]?.device;
  const there = neighbours.filter(({ device }) => device.name === place?.name && device.node === place.node);
  const [first, ...rest] = there;
  if (!first) return '';
  const others = rest.reduce((sum, { count }) => sum + count, 0);
  const atLeast = isOthersCut ? 'at least ' : '';
  const more = others > 0 ? `, and others ${atLeast}${groupDigits(others)}` : '';
  return `; ${shown(first.name)} had ${atLeast}${formatQuantity(first.count, 'request')} on ${formatDevice(first.device, explanation, shown)}${more} meanwhile`;
}

function describeFailures({ failures }: Explanation, shown: Shown): string[] {
  const texts = failures
    .slice(0, FAILURES_MAX)
    .map(
      ({ call, comm, error, count }) => `${formatQuantity(count, shown(call))} of ${shown(comm)} failed with ${error}.`,
    );
  const rest = failures.slice(FAILURES_MAX).reduce((sum, { count }) => sum + count, 0);
  return rest > 0 ? [...texts, `${formatQuantity(rest, 'more call')} failed.`] : texts;
}
