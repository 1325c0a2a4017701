/**
 * Draws the losses of a picture. Each column of pixels has a weight, which increases with the share of its events that
 * is missing. A gap is as wide as its time, but at least one column. So a short gap looks short, and a column that
 * lacks one of 40,000 events looks faint.
 */
import type { ReceivedCoverage } from '../../contract/received.ts';

/** Weight of the faintest gap, which is visible but hides nothing. */
const WEIGHT_MIN = 0.12;
/**
 * A gap counts as at least this long when its missing share is estimated, so that one lost event does not look as if
 * everything were missing. In shorter columns, the minimum is the length of a column.
 */
const SHORT_NS = 1e9;

/** Columns of pixels, all of which cover the same length of time. */
interface Columns {
  count: number;
  fromNs: bigint;
  /** Length of time that one column covers. */
  lengthNs: number;
}

/**
 * Returns a weight from 0 (nothing is missing) to 1 for each column: the square root of the missing share, but at least
 * `WEIGHT_MIN` in a gap. The share is estimated from the mean rate of recorded events of the gap's node. If events
 * could not be counted, the share is 1, because everything may be missing. A gap of cause `in_progress` is a single
 * event, so it has the smallest weight however long the event lasts.
 */
export function computeWeights({ losses, gaps }: ReceivedCoverage, { count, fromNs, lengthNs }: Columns): Float32Array {
  const weights = new Float32Array(count);
  for (const { cause, node, lost, from, to } of gaps!) {
    const [startNs, endNs] = [from, to].map((ns) => Number(BigInt(ns) - fromNs)) as [number, number];
    const rate = losses.find((sum) => sum.cause === cause && (sum.node ?? node) === node)?.rate;
    const lastedNs = Math.max(endNs - startNs, Math.min(lengthNs, SHORT_NS));
    const recorded = rate && (rate.recorded * lastedNs) / Number(BigInt(rate.to) - BigInt(rate.from));
    const share = cause === 'in_progress' ? 0 : lost > 0 && rate ? lost / (lost + recorded!) : 1;
    const weight = Math.max(Math.sqrt(share), WEIGHT_MIN);
    const first = Math.floor(startNs / lengthNs);
    const end = Math.max(Math.ceil(endNs / lengthNs), first + 1);
    for (let at = Math.max(first, 0); at < Math.min(end, count); at++) weights[at] = Math.max(weights[at]!, weight);
  }
  return weights;
}

/** Distance from the start of one hatching line to the start of the next, in CSS pixels along a row. */
const HATCH_PX = 6;
/** Width of a hatching line, in CSS pixels along a row. */
const LINE_PX = 2;

/**
 * Paints the columns with `colour`, which has an alpha of 0; each weight becomes the opacity. Wide gaps are hatched,
 * and gaps narrower than `HATCH_PX` are filled.
 */
export function paintLosses(weights: Float32Array, height: number, colour: number, dpr: number): Uint32Array {
  const width = weights.length;
  const pixels = new Uint32Array(width * height);
  const every = Math.round(HATCH_PX * dpr);
  let [from, end] = [0, 0];
  for (let x = 0; x < width; x++) {
    if (x >= end) for (from = end = x; weights[end]! > 0; ) end++;
    const pixel = ((weights[x]! * 255) << 24) | colour;
    for (let y = 0; x < end && y < height; y++)
      if (end - from < every || (x + y) % every < LINE_PX * dpr) pixels[y * width + x] = pixel;
  }
  return pixels;
}
