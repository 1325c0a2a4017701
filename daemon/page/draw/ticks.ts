/** Marks of the time axis, at multiples of 1, 2 or 5 times a power of ten nanoseconds. */
import { formatDecimal } from '../../model/wording/exact_times.ts';
import { computeXPx, type View } from './view.ts';

export interface Tick {
  /** Offset from the axis' origin, in nanoseconds. */
  ns: number;
  /** Position of the tick, in CSS pixels. */
  xPx: number;
  /** Exact offset, such as `85.42 ms`. */
  label: string;
}

const LEAST_DISTANCE_PX = 80;
const PX_PER_CHARACTER = 8;
const UNITS = [
  ['s', 9],
  ['ms', 6],
  ['µs', 3],
  ['ns', 0],
] as const;

/** Computes the ticks in view; `originNs` is the time that has the label 0. */
export function computeTicks(view: View, originNs = 0): Tick[] {
  const from = view.fromNs - originNs;
  const to = view.toNs - originNs;
  const largest = Math.max(Math.abs(from), Math.abs(to));
  const [unit, places] = UNITS.find(([, power]) => largest >= 10 ** power) ?? UNITS[3];
  const nsPerPx = (to - from) / view.widthPx;
  let step = stepAtLeast(nsPerPx * LEAST_DISTANCE_PX);
  // Labels of a short view far from the origin are long, and long labels need a larger step.
  const computeLabelLength = () => formatTickLabel(Math.trunc(largest), step, unit, places).length;
  while (step < (computeLabelLength() + 2) * PX_PER_CHARACTER * nsPerPx) step = stepAtLeast(step * 1.5);
  const ticks: Tick[] = [];
  for (let count = Math.ceil(from / step); count * step <= to; count++) {
    const ns = count * step + 0;
    ticks.push({ ns, xPx: computeXPx(view, ns + originNs), label: formatTickLabel(ns, step, unit, places) });
  }
  return ticks;
}

/**
 * Writes each label right of its tick, at the height `yPx`, on the axis that begins at `leftPx`. A label that would be
 * cut ends where the axis ends, and a label that it would overlap is left out.
 */
export function drawTickLabels(
  context: Pick<CanvasRenderingContext2D, 'measureText' | 'fillText'>,
  ticks: readonly Pick<Tick, 'xPx' | 'label'>[],
  leftPx: number,
  widthPx: number,
  yPx: number,
): void {
  let endPx = widthPx;
  for (const { xPx, label } of ticks.toReversed()) {
    const { width } = context.measureText(label);
    const x = Math.min(xPx + LABEL_GAP_PX, widthPx - width);
    if (x + width > endPx) continue;
    context.fillText(label, leftPx + x, yPx);
    endPx = x - LABEL_GAP_PX;
  }
}

/** Space between a tick and its label. */
const LABEL_GAP_PX = 3;

/** Finds the smallest number of 1, 2, 5, 10, 20, 50... nanoseconds that is at least `ns`. */
export function stepAtLeast(ns: number): number {
  let power = 1;
  while (power * 10 < ns) power *= 10;
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= ns)!;
}

/** Formats a label with as many decimals as the step needs, so that labels differ and are exact. */
function formatTickLabel(ns: number, step: number, unit: string, unitPlaces: number): string {
  const zeros = Math.min(String(step).length - 1, unitPlaces);
  const whole = BigInt(ns) / 10n ** BigInt(zeros);
  const sign = ns < 0 ? '-' : '';
  return `${sign}${formatDecimal(whole < 0n ? -whole : whole, unitPlaces - zeros)} ${unit}`;
}
