/** The sentence with which a comparison begins: what took longer, by how much, and in which part. */
import { formatShortDuration } from '../../model/wording/exact_times.ts';

export interface ChangePart {
  name: string;
  /** Phrase that follows `11.8 ms of it`; by default `in` and the name. */
  phrase?: string;
  changeNs: bigint;
}

interface Words {
  a: string;
  b: string;
  /** Whether the changes are given per second of a window. */
  isPerSecond?: boolean;
}

/**
 * Builds, for example, `B took 12.4 ms longer than A: 11.8 ms of it in fsync.` The words `of it` are used only if the
 * part's change is no larger than the whole change: a part can have a larger change if other parts changed in the
 * other direction.
 */
export function changeSentence(parts: readonly ChangePart[], { a, b, isPerSecond = false }: Words): string {
  const changeNs = parts.reduce((sum, part) => sum + part.changeNs, 0n);
  const least = findExtreme(parts, -1n);
  const most = findExtreme(parts, 1n);
  const formatSize = (ns: bigint) => formatShortDuration(ns < 0n ? -ns : ns) + (isPerSecond ? ' a second' : '');
  const formatDifference = (ns: bigint) => `${formatSize(ns)} ${ns > 0n ? 'longer' : 'less'}`;
  if (changeNs === 0n) {
    if (!most || !least) return `${b} took as long as ${a}.`;
    const parting = `${most.name} took ${formatDifference(most.changeNs)}, and ${least.name} ${formatDifference(least.changeNs)}`;
    return `${b} took as long as ${a} altogether: ${parting}.`;
  }
  const whole = `${b} took ${formatDifference(changeNs)} than ${a}`;
  const getPhrase = ({ name, phrase = `in ${name}` }: ChangePart) => phrase;
  const main = (changeNs > 0n ? most : least)!;
  const isOnly = parts.every((part) => part === main || part.changeNs === 0n);
  if (isOnly) return `${whole}, all of it ${getPhrase(main)}.`;
  const isWithin = changeNs > 0n ? main.changeNs <= changeNs : main.changeNs >= changeNs;
  if (isWithin) return `${whole}: ${formatSize(main.changeNs)} of it ${getPhrase(main)}.`;
  return `${whole}: ${main.name} took ${formatDifference(main.changeNs)}, and the others ${formatDifference(changeNs - main.changeNs)}.`;
}

/** Returns the part that changed most in one direction; undefined if no part changed in that direction. */
function findExtreme(parts: readonly ChangePart[], sign: 1n | -1n): ChangePart | undefined {
  let found: ChangePart | undefined;
  for (const part of parts)
    if (sign * part.changeNs > 0n && (!found || sign * part.changeNs > sign * found.changeNs)) found = part;
  return found;
}
