/** Shows a strip for each process with the number of its events over time, and a table with the same numbers. */

import { useLayoutEffect, useRef } from 'preact/hooks';
import { groupDigits } from '../../model/wording/exact_times.ts';
import { formatName } from '../../model/wording/names.ts';
import type { BucketCounts } from '../draw/counts.ts';
import { computeHeightShare } from '../draw/density.ts';
import { THEMES, type ThemeName } from '../draw/theme.ts';
import { computeTicks, drawTickLabels } from '../draw/ticks.ts';
import { computeXPx, panView, type View, zoomView } from '../draw/view.ts';
import { useKeys } from './keys.ts';
import { AXIS_PX, chooseNamesWidth, HEIGHT_PX_MAX } from './lanes_canvas.ts';
import { type Around, PAN, ZOOM } from './lanes_picture.tsx';
import { Minimap } from './minimap.tsx';
import { type Heading, Table } from './table.tsx';
import { clearCanvas, readInk, useFrame } from './use_frame.ts';
import { useZoom } from './use_zoom.ts';

interface Props {
  counts: BucketCounts;
  around: Around;
  summary: string;
}

const ROW_PX = 26;
const MARK_PX = 4;
const ROWS_MAX = Math.floor((HEIGHT_PX_MAX - AXIS_PX) / ROW_PX);

export function CountsPicture({ counts, around: { baseNs, bounds }, summary }: Props) {
  const { element, widthPx: pictureWidthPx, theme } = useFrame();
  const canvas = useRef<HTMLCanvasElement>(null);
  const namesPx = chooseNamesWidth(pictureWidthPx);
  const widthPx = Math.max(pictureWidthPx - namesPx, 0);
  const [span, show] = useZoom(baseNs, bounds, bounds);
  const latest = useRef<View>({ ...span, widthPx, dpr: 1 });
  latest.current = { ...span, widthPx, dpr: window.devicePixelRatio };
  useLayoutEffect(() => {
    if (widthPx > 0) draw(canvas.current!, counts, latest.current, namesPx, theme);
  });
  const change = (view: View) => {
    latest.current = view;
    show(view);
  };
  const zoom = (factor: number) => change(zoomView(latest.current, factor, widthPx / 2, bounds));
  const actions: Record<string, () => void> = {
    W: () => zoom(1 / ZOOM),
    S: () => zoom(ZOOM),
    A: () => change(panView(latest.current, -PAN, bounds)),
    D: () => change(panView(latest.current, PAN, bounds)),
    F: () => show(bounds),
  };
  useKeys((key) => {
    actions[key]?.();
    return key in actions;
  });
  const { processes, all } = counts;
  return (
    <section class="panel">
      <div ref={element} class="frame">
        {widthPx > 0 && (
          <Minimap {...{ density: all, bounds, span, namesPx, widthPx, theme }} originNs={0} onShow={show} />
        )}
        <canvas ref={canvas} role="img" aria-label={summary} />
        {processes.length > ROWS_MAX && (
          <p class="loss">▲ {groupDigits(processes.length - ROWS_MAX)} more are in the table only.</p>
        )}
      </div>
      <CountsTable counts={counts} />
    </section>
  );
}

function draw(canvas: HTMLCanvasElement, counts: BucketCounts, view: View, namesPx: number, theme: ThemeName): void {
  const rows = counts.processes.slice(0, ROWS_MAX);
  const context = clearCanvas(canvas, namesPx + view.widthPx, AXIS_PX + rows.length * ROW_PX, view.dpr);
  const ink = readInk();
  const bucketNs = Number(counts.bucketNs);
  const largest = rows.reduce((most, { density }) => density.counts.reduce((a, b) => Math.max(a, b), most), 1);
  context.fillStyle = ink.quiet;
  drawTickLabels(context, computeTicks(view), namesPx, view.widthPx, AXIS_PX / 2);
  for (const [at, { service, pid, density }] of rows.entries()) {
    const bottom = AXIS_PX + (at + 1) * ROW_PX;
    for (let bucket = 0; bucket < counts.bucketCount; bucket++) {
      const count = density.counts[bucket]!;
      const left = Math.max(computeXPx(view, bucket * bucketNs), 0);
      const right = Math.min(computeXPx(view, (bucket + 1) * bucketNs), view.widthPx);
      if (count === 0 || right <= left) continue;
      const heightPx = Math.max(computeHeightShare(count, largest) * (ROW_PX - MARK_PX - 2), 1);
      context.fillStyle = ink.quiet;
      context.fillRect(namesPx + left, bottom - heightPx, Math.max(right - left, 1), heightPx);
      context.fillStyle = `#${THEMES[theme].error}`;
      if (density.failed[bucket]! > 0)
        context.fillRect(namesPx + left, bottom - ROW_PX + 2, Math.max(right - left, 2), MARK_PX);
    }
    context.clearRect(0, bottom - ROW_PX, namesPx, ROW_PX);
    context.fillStyle = ink.text;
    context.fillText(`${pid} ${formatName(service)}`, 4, bottom - ROW_PX / 2, namesPx - 8);
  }
}

function CountsTable({ counts: { processes } }: { counts: BucketCounts }) {
  const types = [...new Set(processes.flatMap((process) => [...process.types.keys()]))].sort();
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: what scrolls must be reached by the keyboard
    <section class="rows low" tabIndex={0} aria-label="Events by process">
      <Table
        caption="Events by process, those with the most first"
        headings={[
          'Node',
          'Service',
          'pid',
          ['Events', 'number'],
          ['Failed', 'number'],
          ...types.map((heading): Heading => [heading, 'number']),
        ]}
      >
        {processes.map(({ node, service, pid, count, failedCount, types: ofProcess }) => (
          <tr key={JSON.stringify([node, service, pid])}>
            <td>{formatName(node)}</td>
            <td>{formatName(service)}</td>
            <td class="digits">{pid}</td>
            {[count, failedCount, ...types.map((type) => ofProcess.get(type) ?? 0)].map((value, at) => (
              <td class="number" key={types[at - 2] ?? at}>
                {groupDigits(value)}
              </td>
            ))}
          </tr>
        ))}
      </Table>
    </section>
  );
}
