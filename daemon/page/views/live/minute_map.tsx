/** Shows the last minute as a map of events, by time and duration. */
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { formatQuantity } from '../../../model/wording/amounts.ts';
import { formatShortDuration } from '../../../model/wording/exact_times.ts';
import { THEMES, toPixel } from '../../draw/theme.ts';
import { FIRST_ROW, getRowStartNs, MINUTE_COLUMNS, type Minute, ROW_COUNT } from '../../live/minute.ts';
import {
  computeColumnsPerCell,
  computeMinuteColumn,
  computeMinuteRow,
  drawMinute,
  type MinutePalette,
} from '../../live/minute_picture.ts';
import { advanceMinute, type LiveTail } from '../../live/tail.ts';
import { formatWallClock } from '../../numbers/wall_clock.ts';
import { usePage } from '../context.ts';
import { readCurrentTheme } from '../theme.ts';

const HEIGHT_PX = 2 * ROW_COUNT;
const DRAW_MS = 100;
const SHADES = 16;
/** Share of the events' colour in the shade of a cell with one event; the rest is the background colour. */
const LEAST_SHARE = 0.7;

interface Props {
  tail: LiveTail;
  summary: string;
}

interface MinuteCell {
  column: number;
  row: number;
}

export function MinuteMap({ tail, summary }: Props) {
  const { announce } = usePage();
  const canvas = useRef<HTMLCanvasElement>(null);
  const [place, setPlace] = useState<MinuteCell | null>(null);
  // The cleanup of a layout effect runs before the canvas is removed; a cleanup of `useEffect` runs one frame later.
  useLayoutEffect(() => {
    let drawnMs = -1;
    const draw = () => {
      const readMs = tail.readMs(performance.now());
      if (document.hidden || readMs === drawnMs) return;
      const minute = advanceMinute(tail);
      if (!minute) return;
      drawnMs = readMs;
      paint(canvas.current!, minute);
    };
    draw();
    let frame = 0;
    const timer = setInterval(() => {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(draw);
    }, DRAW_MS);
    const onTheme = () => tail.kept.minute && paint(canvas.current!, tail.kept.minute);
    window.addEventListener('themechange', onTheme);
    return () => {
      clearInterval(timer);
      cancelAnimationFrame(frame);
      window.removeEventListener('themechange', onTheme);
    };
  }, [tail]);
  const point = ({ offsetX, offsetY }: PointerEvent) => {
    const { clientWidth } = canvas.current!;
    setPlace({ column: computeMinuteColumn(offsetX, clientWidth), row: computeMinuteRow(offsetY, HEIGHT_PX) });
  };
  const step = (event: KeyboardEvent) => {
    const by = STEPS.get(event.key);
    if (!by) return;
    event.preventDefault();
    event.stopPropagation();
    const columns = computeColumnsPerCell(canvas.current!.clientWidth);
    const from = place ?? { column: MINUTE_COLUMNS - columns, row: ROW_COUNT / 2 };
    const next = {
      column: Math.min(Math.max(from.column + by[0] * columns, 0), MINUTE_COLUMNS - columns),
      row: Math.min(Math.max(from.row + by[1], 0), ROW_COUNT - 1),
    };
    setPlace(next);
    if (tail.kept.minute) announce(placeText(tail.kept.minute, next, columns));
  };
  return (
    <>
      <div class="map">
        <div class="durations" aria-hidden="true">
          {DECADES.map((row) => (
            <span key={row} style={{ bottom: `${(row / ROW_COUNT) * 100}%` }}>
              {formatShortDuration(getRowStartNs(row)).replace(/\.0+(?= )/, '')}
            </span>
          ))}
        </div>
        <canvas
          ref={canvas}
          role="img"
          tabIndex={0}
          aria-label={summary}
          style={{ height: `${HEIGHT_PX}px` }}
          onPointerMove={point}
          onPointerLeave={() => setPlace(null)}
          onBlur={() => setPlace(null)}
          onKeyDown={step}
        />
      </div>
      <p class="times quiet" aria-hidden="true">
        <span>60 s before</span>
        <span>30 s</span>
        <span>{tail.isFollowing || !tail.kept.minute ? 'now' : 'when it stopped'}</span>
      </p>
      <p class="quiet">
        {place && tail.kept.minute ? (
          placeText(tail.kept.minute, place, computeColumnsPerCell(canvas.current!.clientWidth))
        ) : (
          <Legend />
        )}
      </p>
    </>
  );
}

const STEPS: ReadonlyMap<string, readonly [columns: number, rows: number]> = new Map([
  ['ArrowLeft', [-1, 0]],
  ['ArrowRight', [1, 0]],
  ['ArrowUp', [0, 1]],
  ['ArrowDown', [0, -1]],
]);

/** Rows that start at 100 ns, 1 µs, 10 µs and so on. */
const DECADES = Array.from({ length: ROW_COUNT / 16 }, (_, decade) => decade * 16).filter((row) => row + FIRST_ROW > 0);

function Legend() {
  return (
    <>
      <span class="key one" aria-hidden="true" /> one event, <span class="key most" aria-hidden="true" /> the most,{' '}
      <span class="key failure" aria-hidden="true" /> with failed ones,{' '}
      <span class="key unrecorded" aria-hidden="true" /> not recorded. Arrows read the map.
    </>
  );
}

/** Describes a cell: `3 events from 1.00 ms to 1.15 ms, begun at 12:00:01.250, 1 failed`. */
function placeText(minute: Minute, { column, row }: MinuteCell, columns: number): string {
  let [count, failed, isLost] = [0, 0, false];
  for (let at = column; at < Math.min(column + columns, MINUTE_COLUMNS); at++) {
    const cell = minute.computePlace(at) * ROW_COUNT + row;
    count += minute.counts[cell]!;
    failed += minute.failed[cell]!;
    isLost ||= minute.isLost(at);
  }
  const least = row === 0 ? 'up to' : `${formatShortDuration(getRowStartNs(row))} to`;
  const most = row === ROW_COUNT - 1 ? 'any time' : formatShortDuration(getRowStartNs(row + 1));
  const when = formatWallClock(minute.computeStartNs(column)).slice(11, 23);
  const failures = failed > 0 ? `, ✕ ${failed} failed` : '';
  return `${isLost ? 'at least ' : ''}${formatQuantity(count, 'event')} of ${least} ${most}, begun at ${when}${failures}`;
}

function paint(canvas: HTMLCanvasElement, minute: Minute): void {
  const widthPx = Math.max(canvas.clientWidth, 1);
  if (canvas.width !== widthPx || canvas.height !== HEIGHT_PX) {
    canvas.width = widthPx;
    canvas.height = HEIGHT_PX;
  }
  const image = getOrCreateImage(canvas);
  drawMinute(minute, readMinutePalette(), new Uint32Array(image.data.buffer), widthPx, HEIGHT_PX);
  canvas.getContext('2d')!.putImageData(image, 0, 0);
}

const images = new WeakMap<HTMLCanvasElement, ImageData>();

/**
 * Returns the pixels of a canvas, which are allocated once: new pixels for ten pictures a second would be most of the
 * page's garbage.
 */
function getOrCreateImage(canvas: HTMLCanvasElement): ImageData {
  const known = images.get(canvas);
  if (known?.width === canvas.width && known.height === canvas.height) return known;
  const image = new ImageData(canvas.width, canvas.height);
  images.set(canvas, image);
  return image;
}

const palettes = new Map<string, MinutePalette>();

function readMinutePalette(): MinutePalette {
  const theme = readCurrentTheme();
  const known = palettes.get(theme);
  if (known) return known;
  const style = getComputedStyle(document.documentElement);
  const readColor = (name: string) => style.getPropertyValue(`--${name}`).trim().slice(1);
  const [ground, text, { rest, error }] = [readColor('panel'), readColor('text'), THEMES[theme]];
  const mixShade = (share: number) =>
    share < 0.5
      ? mixColors(ground, rest, LEAST_SHARE + (1 - LEAST_SHARE) * 2 * share)
      : mixColors(rest, text, (share - 0.5) * 1.4);
  const palette = {
    ground: toPixel(ground),
    counts: Uint32Array.from({ length: SHADES }, (_, at) => toPixel(mixShade(at / (SHADES - 1)))),
    failed: toPixel(error),
    lost: toPixel(error),
  };
  palettes.set(theme, palette);
  return palette;
}

/** Mixes two colours, which are given as hex digits. */
function mixColors(one: string, other: string, share: number): string {
  const parseChannel = (hex: string, at: number) => Number.parseInt(hex.slice(2 * at, 2 * at + 2), 16);
  const mixChannel = (at: number) => Math.round(parseChannel(one, at) * (1 - share) + parseChannel(other, at) * share);
  return [0, 1, 2].map((at) => mixChannel(at).toString(16).padStart(2, '0')).join('');
}
