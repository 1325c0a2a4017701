/** The map with what it is of, what is selected in it, and what its marks mean. */
import type { MapKind } from '../../feed/answers.ts';
import { type Box, OPEN_BOX } from '../../map/box.ts';
import type { LatencyMap, Selection } from '../../map/questions.ts';
import { mapSummary } from '../../map/summary.ts';
import { TAIL_SHARE, tailSize } from '../../map/tail.ts';
import { grouped } from '../../numbers/exact_times.ts';
import { usePage } from '../context.ts';
import { MapPicture } from './map_picture.tsx';
import { MapTable } from './map_table.tsx';

interface Props {
  map: LatencyMap;
  selection: Selection | null;
  /** Whether another map is awaited. */
  isOld: boolean;
}

const KINDS: readonly (readonly [of: MapKind, title: string])[] = [
  ['transactions', 'Transactions'],
  ['events', 'Events'],
];

export function MapPanel({ map, selection, isOld }: Props) {
  const { link, go } = usePage();
  const setBox = (box: Box | null) => go(box ?? { ...OPEN_BOX, box_failed: false }, false);
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
      </div>
      {link.table ? (
        <MapTable map={map} selection={selection} />
      ) : (
        <MapPicture map={map} selection={selection} summary={mapSummary(map, selection)} onBox={setBox} />
      )}
      {!link.table && <Legend map={map} />}
    </section>
  );
}

/** Which ones are selected: the slowest, those that failed, or a box. */
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
    { name: 'failed', text: `failed, ${grouped(failed)}`, isOff: failed === 0, box: OPEN_BOX },
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
      {answer.coverage.gaps.length > 0 && (
        <span>
          <span class="key hatched" aria-hidden="true" /> not recorded
        </span>
      )}
    </p>
  );
}
