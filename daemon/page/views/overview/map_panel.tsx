/** Shows the map, with buttons for its kind and its selection, and explains its marks. */

import type { MapKind } from '../../../contract/received.ts';
import { formatExactDuration, groupDigits } from '../../../model/wording/exact_times.ts';
import { computeBox, computeCellBox, type LinkBox, OPEN_BOX } from '../../map/box.ts';
import type { LatencyMap, Selection } from '../../map/questions.ts';
import type { MapCell } from '../../map/scale.ts';
import { mapSummary } from '../../map/summary.ts';
import { TAIL_SHARE, tailSize } from '../../map/tail.ts';
import { formatWallClock } from '../../numbers/wall_clock.ts';
import { usePage } from '../context.ts';
import { ScrolledRows } from '../scrolled_rows.tsx';
import { MapPicture } from './map_picture.tsx';

interface Props {
  map: LatencyMap;
  selection: Selection | null;
  /** Whether the page waits for the next map. */
  isOld: boolean;
}

const KINDS: readonly (readonly [of: MapKind, title: string])[] = [
  ['transactions', 'Transactions'],
  ['events', 'Events'],
];

export function MapPanel({ map, selection, isOld }: Props) {
  const { link, go } = usePage();
  const setBox = (box: LinkBox | null) => go(box ?? { ...OPEN_BOX, box_failed: false }, false);
  return (
    <section class="panel" aria-busy={isOld}>
      <div class="controls">
        <h2>Latency of {map.of}</h2>
        {KINDS.map(([of, title]) => (
          <button
            type="button"
            key={of}
            aria-pressed={map.of === of}
            onClick={() => go({ of, ...OPEN_BOX, box_failed: false }, false)}
          >
            {title}
          </button>
        ))}
        <button
          type="button"
          aria-pressed={link.table}
          aria-keyshortcuts="V"
          onClick={() => go({ table: !link.table }, false)}
        >
          Table
        </button>
        <Selecting map={map} selection={selection} />
        {selection?.kind === 'box' && selection.box.box_from !== null && (
          <button type="button" onClick={() => go(zoomToBox(selection.box))}>
            Zoom in
          </button>
        )}
      </div>
      {link.table ? (
        <MapTable map={map} selection={selection} />
      ) : (
        <MapPicture
          map={map}
          selection={selection}
          summary={mapSummary(map, selection)}
          onBox={setBox}
          onTime={(box) => go(zoomToBox(box))}
        />
      )}
      {!link.table && <Legend map={map} />}
    </section>
  );
}

/** Makes the time of a box the window. */
const zoomToBox = ({ box_from, box_to }: LinkBox) => ({
  from: box_from,
  to: box_to,
  ...OPEN_BOX,
  box_failed: false,
});

/** Buttons that choose the selection: the slowest entries, the failed entries, or a box. */
function Selecting({ map, selection }: { map: LatencyMap; selection: Selection | null }) {
  const { go } = usePage();
  const { count, failed } = map.answer.total;
  const size = tailSize(count);
  const isTwoPercent = size === Math.ceil(count * TAIL_SHARE) && map.of === 'transactions';
  const kind = selection?.kind ?? null;
  const box = selection?.kind === 'box' ? selection.box : null;
  const choices = [
    {
      name: 'slowest',
      text: isTwoPercent ? `slowest ${TAIL_SHARE * 100} %` : 'slowest',
      isOff: size === 0,
      box: OPEN_BOX,
    },
    { name: 'failed', text: `failed, ${groupDigits(failed)}`, isOff: failed === 0, box: OPEN_BOX },
    { name: 'box', text: 'box', isOff: selection === null, box: box ?? selection?.box ?? OPEN_BOX },
  ];
  return (
    <fieldset class="choice">
      <legend>selected:</legend>
      {choices.map(({ name, text, isOff, box }) => (
        <label key={name}>
          <input
            {...{ type: 'radio', name: 'selected', checked: kind === name, disabled: isOff }}
            onChange={() => go({ ...box, box_failed: name === 'failed' }, false)}
          />
          {text}
        </label>
      ))}
    </fieldset>
  );
}

function Legend({ map: { answer } }: { map: LatencyMap }) {
  return (
    <p class="legend quiet">
      <span>
        one <span class="key ramp" aria-hidden="true" /> many
      </span>
      {answer.total.failed > 0 && (
        <span>
          <span class="key failed-mark" aria-hidden="true" /> some failed
        </span>
      )}
      {!answer.coverage.complete && (
        <span>
          <span class="key hatched" aria-hidden="true" /> not recorded; faint: few
        </span>
      )}
    </p>
  );
}

/* Shows the map as a table: a row, with exact limits, for each cell that is not empty. */

interface MapTableProps {
  map: LatencyMap;
  selection: Selection | null;
}

function MapTable({ map, selection }: MapTableProps) {
  const { cells, scale, answer } = map;
  const box = selection && selection.kind !== 'failed' ? computeCellBox(scale, selection.box) : null;
  const isSelected = ({ column, band, failed }: MapCell) =>
    selection !== null &&
    (!selection.isFailed || failed > 0) &&
    (!box || (column + 1 > box.left && column < box.right && band + 1 > box.bottom && band < box.top));
  const count = answer.coverage.complete ? 'Count' : 'Count, at least';
  return (
    <ScrolledRows
      label="Cells of the map"
      headings={['Start (UTC)', 'Duration from', 'to before', count, 'Failed', 'Selected'].map((name) => ({ name }))}
      rowCount={cells.length}
      row={(at) => <CellTexts map={map} cell={cells[at]!} isSelected={isSelected(cells[at]!)} />}
      rowClass={(at) => (isSelected(cells[at]!) ? 'selected' : undefined)}
    />
  );
}

function CellTexts({ map: { scale }, cell, isSelected }: { map: LatencyMap; cell: MapCell; isSelected: boolean }) {
  const { column, band, count, failed } = cell;
  const box = computeBox(scale, { left: column, right: column + 1, bottom: band, top: band + 1 });
  const end = box.box_max === null ? 'any' : formatExactDuration(box.box_max + 1n);
  const texts = [
    formatWallClock(box.box_from!),
    ...[formatExactDuration(box.box_min!), end, groupDigits(count), groupDigits(failed), isSelected ? '✓' : ''],
  ];
  return (
    <>
      {texts.map((text, at) => (
        <td key={at} class="digits">
          {text}
        </td>
      ))}
    </>
  );
}
