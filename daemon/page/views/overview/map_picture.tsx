/** The map of latencies as a picture, with a box that pointer and keys move. */
import { useCallback, useEffect, useLayoutEffect, useMemo, useRef } from 'preact/hooks';
import { groupDigits } from '../../../model/wording/exact_times.ts';
import {
  type CellBox,
  computeBox,
  computeCellBox,
  computeCoveredCells,
  type LinkBox,
  moveBox,
  resizeBox,
  roundBox,
  sumCellsInBox,
} from '../../map/box.ts';
import type { LatencyMap, Selection } from '../../map/questions.ts';
import { formatBox } from '../../map/summary.ts';
import { keepUnits } from '../../numbers/kept_units.ts';
import { readInk, useFrame } from '../use_frame.ts';
import { createMapCanvas, type MapCanvas } from './map_canvas.ts';

interface Props {
  map: LatencyMap;
  selection: Selection | null;
  /** Sentence that says what the picture shows. */
  summary: string;
  /** Called with the new box, or with null to clear it. */
  onBox: (box: LinkBox | null) => void;
  /** Called with the time span that the user dragged along the axis, as a box. */
  onTime: (box: LinkBox) => void;
}

/**
 * Time for which the box must rest before it is stored in the link, so that the daemon is not asked about each step.
 */
const REST_MS = 100;
/** Minimum distance of a drag, in CSS pixels; a shorter movement draws no box. */
const DRAG_PX = 4;

export function MapPicture({ map, selection, summary, onBox, onTime }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const readout = useRef<HTMLParagraphElement>(null);
  const { element: frame, widthPx, theme } = useFrame();
  const look = useMemo(
    () => (widthPx > 0 ? { widthPx, dpr: window.devicePixelRatio, theme, ink: readInk() } : null),
    [widthPx, theme, window.devicePixelRatio],
  );
  const picture = useMemo(() => look && createMapCanvas(map, look), [map, look]);
  const chosen = useMemo(() => selection && computeCellBox(map.scale, selection.box), [map, selection]);
  const isWhole = selection?.kind === 'failed';
  const draw = useCallback(
    (draft: CellBox | null) => {
      if (!picture) return;
      picture.draw(canvas.current!, draft ?? (isWhole ? null : chosen), selection?.isFailed === true);
      readout.current!.textContent = keepUnits(
        draft ? formatDraft(map, draft) : selection ? formatChosen(map, selection) : '',
      );
    },
    [picture, chosen, isWhole, selection, map],
  );
  const draft = useDraft({ map, draw, onBox });
  useLayoutEffect(() => draw(draft.current()), [draw]);
  const start = () => draft.current() ?? (chosen ? roundBox(map.scale, chosen) : computeMiddleBox(map));
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === 'Escape') {
      draft.clear();
      onBox(null);
    } else {
      const step = STEPS.get(event.key);
      if (!step) return;
      const change = event.shiftKey ? resizeBox : moveBox;
      draft.set(change(map.scale, start(), ...step));
    }
    event.preventDefault();
  };
  return (
    <div ref={frame} class="frame">
      <canvas
        {...{ ref: canvas, class: 'map', role: 'img', tabIndex: 0, onKeyDown }}
        aria-label={summary}
        {...useDrag({ map, picture, draft, onTime })}
      />
      <p ref={readout} class="readout quiet digits" />
    </div>
  );
}

const STEPS: ReadonlyMap<string, readonly [columns: number, bands: number]> = new Map([
  ['ArrowLeft', [-1, 0]],
  ['ArrowRight', [1, 0]],
  ['ArrowUp', [0, 1]],
  ['ArrowDown', [0, -1]],
]);

/** Computes the box with which the arrow keys start: the middle quarter of the map's width and height. */
function computeMiddleBox({ scale: { columnCount, bandCount } }: LatencyMap): CellBox {
  const left = Math.floor((columnCount * 3) / 8);
  const bottom = Math.floor((bandCount * 3) / 8);
  return {
    left,
    right: Math.max(Math.ceil((columnCount * 5) / 8), left + 1),
    bottom,
    top: Math.max(Math.ceil((bandCount * 5) / 8), bottom + 1),
  };
}

function formatChosen(map: LatencyMap, { kind, box }: Selection): string {
  if (kind === 'failed') return 'Selected: what failed';
  const cells = computeCellBox(map.scale, box);
  // The count of a box that divides cells cannot be computed from the cells, so only the sentence shows the count,
  // which comes from the daemon.
  const isWhole = cells !== null && Object.values(cells).every(Number.isInteger);
  return isWhole ? formatDraft(map, cells) : `Selected: ${formatBox(map, box)}`;
}

function formatDraft(map: LatencyMap, box: CellBox): string {
  const { count, failed } = sumCellsInBox(map.cells, box);
  const atLeast = map.answer.coverage.complete ? '' : 'at least ';
  const failures = failed > 0 ? `, ${groupDigits(failed)} failed` : '';
  return `${atLeast}${groupDigits(count)} in the box${failures}: ${formatBox(map, computeBox(map.scale, box))}`;
}

interface BoxDraft {
  current(): CellBox | null;
  /** Draws a box immediately, and calls `onBox` when the box has stopped moving. */
  set(box: CellBox): void;
  /** Draws a box, but does not keep it. */
  show(box: CellBox): void;
  /** Calls `onBox` immediately. */
  commit(): void;
  clear(): void;
}

interface DraftOptions {
  map: LatencyMap;
  draw: (draft: CellBox | null) => void;
  onBox: (box: LinkBox | null) => void;
}

/** Keeps the box that the user draws or moves, until the link stores it. */
function useDraft({ map, draw, onBox }: DraftOptions): BoxDraft {
  const state = useRef<{ map: LatencyMap; box: CellBox | null; timer: number | undefined }>({
    map,
    box: null,
    timer: undefined,
  });
  // A box that was drawn on another map is discarded, because the maps have different cells.
  if (state.current.map !== map) {
    window.clearTimeout(state.current.timer);
    state.current = { map, box: null, timer: undefined };
  }
  useEffect(() => () => window.clearTimeout(state.current.timer), []);
  const commit = () => {
    window.clearTimeout(state.current.timer);
    const { box } = state.current;
    state.current.box = null;
    if (box) onBox(computeBox(map.scale, box));
  };
  return {
    current: () => state.current.box,
    set(box) {
      window.clearTimeout(state.current.timer);
      state.current.box = box;
      state.current.timer = window.setTimeout(commit, REST_MS);
      draw(box);
    },
    show: draw,
    commit,
    clear() {
      window.clearTimeout(state.current.timer);
      state.current.box = null;
      draw(null);
    },
  };
}

interface DragStart {
  map: LatencyMap;
  xPx: number;
  yPx: number;
  isDrag: boolean;
  /** Cells of the dragged time span, if the drag began on the axis below the cells; otherwise null. */
  time: CellBox | null;
}

interface DragOptions {
  map: LatencyMap;
  picture: MapCanvas | null;
  draft: BoxDraft;
  onTime: (box: LinkBox) => void;
}

/**
 * Makes a drag draw a new box or, along the axis, choose a time span. On a touch screen, a movement that begins
 * sideways draws a box, while a movement that begins upwards scrolls the page.
 */
function useDrag({ map, picture, draft, onTime }: DragOptions) {
  const start = useRef<DragStart | null>(null);
  return {
    onPointerDown(event: PointerEvent) {
      if (!picture || event.button !== 0 || map.scale.columnCount === 0) return;
      start.current = { map, xPx: event.offsetX, yPx: event.offsetY, isDrag: false, time: null };
      (event.currentTarget as Element).setPointerCapture(event.pointerId);
    },
    onPointerMove(event: PointerEvent) {
      const from = start.current;
      // A new map has other cells under the pointer, so the present drag ends.
      if (from && from.map !== map) start.current = null;
      if (!from || from.map !== map || !picture) return;
      const xPx = event.offsetX;
      const yPx = event.offsetY;
      from.isDrag ||= Math.hypot(xPx - from.xPx, yPx - from.yPx) > DRAG_PX;
      if (!from.isDrag) return;
      const first = picture.computeMapPlace(from.xPx, from.yPx);
      const last = picture.computeMapPlace(xPx, yPx);
      if (first.band >= 0) return draft.set(computeCoveredCells(map.scale, first, last));
      from.time = computeCoveredCells(map.scale, first, { ...last, band: map.scale.bandCount });
      draft.show(from.time);
    },
    onPointerUp() {
      const { isDrag, time } = start.current ?? {};
      start.current = null;
      if (time) onTime(computeBox(map.scale, time));
      else if (isDrag) draft.commit();
    },
    onPointerCancel() {
      if (start.current?.isDrag) draft.clear();
      start.current = null;
    },
  };
}
