/** Shows the values that distinguish the selection, with their shares; each value can be kept or excluded. */
import type { DifferencesAnswer, DifferentValue } from '../../../contract/received.ts';
import { percentText } from '../../../model/wording/amounts.ts';
import { groupDigits } from '../../../model/wording/exact_times.ts';
import { formatName } from '../../../model/wording/names.ts';
import { addFilterValue } from '../../link/filters.ts';
import type { Apart } from '../../map/questions.ts';
import { computeValueShares } from '../../map/sentence.ts';
import { formatFieldValue, getFieldName, joinWithAnd } from '../../map/wording.ts';
import { usePage } from '../context.ts';

interface Props {
  apart: Apart;
  /** Whether the page waits for another answer; the buttons of the shown answer are then disabled. */
  isOld: boolean;
}

export function WhatIsDifferent({ apart: { answer }, isOld }: Props) {
  const { differences, too_few, more, equal, left_out, window } = answer;
  const formatFieldNames = (fields: readonly DifferentValue['field'][]) => joinWithAnd(fields.map(getFieldName));
  return (
    <>
      <h2>What is different</h2>
      <p class="quiet">
        <span class="key selected-share" aria-hidden="true" /> {groupDigits(answer.selected.count)} selected,{' '}
        <span class="key other-share" aria-hidden="true" /> {groupDigits(answer.others.count)} others
      </p>
      {too_few && <p>Too few to compare: 30 selected and 30 others are needed.</p>}
      {!too_few && differences.length === 0 && <p>No difference outside noise.</p>}
      <ul class="differences">
        {differences.map(({ values }) => (
          <li key={buildValueKey(values[0]!)}>
            {values.map((value) => (
              <Value key={buildValueKey(value)} value={value} isOld={isOld} />
            ))}
            <Shares answer={answer} value={values[0]!} />
          </li>
        ))}
      </ul>
      {more > 0 && <p class="quiet">{groupDigits(more)} more, less different, are not listed.</p>}
      {!too_few && equal.length > 0 && <p class="quiet">no difference: {formatFieldNames(equal)}</p>}
      {left_out.length > 0 && (
        <p class="quiet">not compared, as there are too many values: {formatFieldNames(left_out)}</p>
      )}
      {window.narrowed && (
        <p class="quiet">
          The window has too many events to compare all: the others are those of the same time as the selected.
        </p>
      )}
    </>
  );
}

const buildValueKey = ({ field, value, device }: DifferentValue) => JSON.stringify([field, value, device]);

function Value({ value, isOld }: { value: DifferentValue; isOld: boolean }) {
  const { link, go } = usePage();
  const text = formatFieldValue(value, formatName);
  const { field } = value;
  if (field === 'neighbour')
    return (
      <div class="value">
        <span class="text">{text}</span>
        <span class="quiet">no filter: open a slow one to see it</span>
      </div>
    );
  const applyFilter = (isExcluded: boolean) => go(addFilterValue(link, field, value.value, isExcluded));
  return (
    <div class="value">
      <span class="text">{text}</span>
      <button type="button" disabled={isOld} aria-label={`Keep ${text}`} onClick={() => applyFilter(false)}>
        Keep
      </button>
      <button type="button" disabled={isOld} aria-label={`Exclude ${text}`} onClick={() => applyFilter(true)}>
        Exclude
      </button>
    </div>
  );
}

function Shares({ answer, value }: { answer: DifferencesAnswer; value: DifferentValue }) {
  const [selected, others] = computeValueShares(answer, value);
  return (
    <div class="shares">
      <Share name="selected" kind="selected-share" share={selected} />
      <Share name="others" kind="other-share" share={others} />
    </div>
  );
}

function Share({ name, kind, share }: { name: string; kind: string; share: number }) {
  return (
    <>
      <div class="bar" aria-hidden="true">
        <div class={kind} style={{ width: `${share * 100}%` }} />
      </div>
      <span class="digits">
        {percentText(share)}
        <span class="spoken"> of the {name}</span>
      </span>
    </>
  );
}
