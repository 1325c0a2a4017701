/**
 * How heavily the losses of a picture are drawn: by the share of the events that is missing in each column of pixels. A
 * gap is as wide as its time, and one column at least, so that what is short looks short; where one of 40,000 events is
 * missing, the column is faint.
 */
import type { ReceivedCoverage } from '../../contract/received.ts';

/** Weight of the faintest gap: it must be visible, and hide nothing. */
const WEIGHT_MIN = 0.12;
/** The share of a shorter gap is that of this time, or of one column: a single event is no hole. */
const SHORT_NS = 1e9;

/** Columns of equal time. */
interface Columns {
  count: number;
  fromNs: bigint;
  /** Time of one column. */
  lengthNs: number;
}

/**
 * Returns a weight from 0 (nothing is missing) to 1 for each column. The share of a gap is estimated from the mean rate
 * at which events of its node were recorded; everything may be missing where events could not be counted. A call in
 * progress is a single event, however long it lasts.
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

/** Distance of the lines of the hatching, and the width of a line, in CSS pixels along a row. */
const HATCH_PX = 6;
const LINE_PX = 2;

/**
 * Paints the columns as pixels of `colour`, which is transparent, with the weights as opacity: hatched or, in narrow
 * gaps, filled.
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
