/** The clock offsets of a link: `node:nanoseconds`, where the nanoseconds have a sign. */
import { I64_MAX } from '../../base/bigints.ts';
import type { Link } from './link.ts';

export type LinkedClockOffsets = ReadonlyMap<string, bigint>;

/** Maximum offset that the API accepts. */
const OFFSET_NS_MAX = I64_MAX;

export interface ParsedOffsets {
  offsets: LinkedClockOffsets;
  /** Descriptions of the parts that were not understood; the other parts are applied. */
  problems: string[];
}

/** The first group is greedy, because the name of a node may contain a colon. */
const FORM = /^(.+):([+-]?\d{1,19})$/s;

/** Reads the offsets of the transaction's nodes only: the daemon would refuse or ignore an offset for another node. */
export function parseClockOffsets(
  { clock_offset }: Pick<Link, 'clock_offset'>,
  nodes: readonly string[],
): ParsedOffsets {
  const offsets = new Map<string, bigint>();
  const problems: string[] = [];
  for (const text of clock_offset) {
    const [, node, digits] = FORM.exec(text) ?? [];
    const ns = digits === undefined ? null : BigInt(digits.replace('+', ''));
    if (node === undefined || ns === null) problems.push(`${text}: must be node:nanoseconds`);
    else if (ns < -OFFSET_NS_MAX || ns > OFFSET_NS_MAX) problems.push(`${text}: is more than 292 years`);
    else if (!nodes.includes(node)) problems.push(`${node}: no node of this transaction`);
    else if (offsets.has(node)) problems.push(`${node}: is given more than once`);
    else offsets.set(node, ns);
  }
  return { offsets, problems };
}

/** Formats the offsets as a field of a link, without offsets of 0. */
export function formatClockOffsets(offsets: LinkedClockOffsets): string[] {
  return [...offsets].filter(([, ns]) => ns !== 0n).map(([node, ns]) => `${node}:${ns < 0n ? '' : '+'}${ns}`);
}
