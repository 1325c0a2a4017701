/** Counts the similar transactions that would miss the deadline. */

import { useMemo, useState } from 'preact/hooks';
import type { CurvesAnswer } from '../../contract/received.ts';
import { groupDigits } from '../../model/wording/exact_times.ts';
import { formatName } from '../../model/wording/names.ts';
import type { LinkedClockOffsets } from '../link/clock_offsets.ts';
import { buildOnlyFilter } from '../replay/settings_in_link.ts';
import { type CurvePopulation, createPopulation } from '../what_if/population.ts';
import { buildAssumption, buildWhere, listUnusedFilters, type QuestionWhere, WHAT_IF } from '../what_if/question.ts';
import { describePopulation, formatShares } from '../what_if/words.ts';
import { usePage } from './context.ts';
import { FailureNote } from './failure_note.tsx';
import { useAnswer } from './use_answer.ts';
import type { ProjectionChoice } from './use_projection.ts';

interface Props {
  chosen: ProjectionChoice;
  offsets: LinkedClockOffsets;
  /** The service whose transactions are counted if the link has no window, service or node. */
  ownService: string | null;
}

interface Others extends Omit<CurvesAnswer, 'transactions'> {
  key: string;
  where: QuestionWhere;
  population: CurvePopulation;
}

export function WhatIfOthers({ chosen, offsets, ownService }: Props) {
  const { daemon, link } = usePage();
  /**
   * Whether the user has requested the answer. The page does not request it earlier, because the daemon must read many
   * events for it.
   */
  const [isAsked, setIsAsked] = useState(false);
  const where = buildWhere(link, ownService);
  const body = { where, ...buildAssumption(buildOnlyFilter(link), offsets) };
  const key = JSON.stringify(body, (_, value) => (typeof value === 'bigint' ? String(value) : value));
  const answer = useAnswer<Others>(isAsked ? key : null, async (signal) => {
    const { transactions, ...about } = await daemon.askJson<CurvesAnswer>(WHAT_IF, { method: 'POST', body, signal });
    return { ...about, key, where, population: createPopulation(transactions.map(({ curve }) => curve)) };
  });
  if (!isAsked)
    return (
      <p>
        <button type="button" onClick={() => setIsAsked(true)}>
          And other transactions{where.service && ` of ${where.service.map(formatName).join(' or ')}`}?
        </button>
      </p>
    );
  // An answer for earlier settings is not shown.
  const others = answer.body?.key === key ? answer.body : null;
  return (
    <>
      {answer.failure && <FailureNote failure={answer.failure} onRetry={answer.askAgain} />}
      {!others && answer.isLoading && <p class="quiet">Reading the other transactions…</p>}
      {others && <Shares {...{ others, chosen }} unused={listUnusedFilters(link)} />}
    </>
  );
}

interface SharesProps {
  others: Others;
  chosen: ProjectionChoice;
  unused: readonly string[];
}

function Shares({ others, chosen: { latencyNs, timeoutNs }, unused }: SharesProps) {
  const { population, where, are_more, coverage } = others;
  const { count } = population;
  const before = useMemo(
    () => (timeoutNs === null ? 0 : population.countMissed(0n, timeoutNs)),
    [population, timeoutNs],
  );
  const after = timeoutNs === null ? 0 : population.countMissed(latencyNs, timeoutNs);
  return (
    <p class="figures others">
      <span>
        {describePopulation(count, where, are_more, formatName)}:{' '}
        {timeoutNs === null ? (
          'choose how long the caller waits'
        ) : (
          <strong>
            {!coverage.complete && '▲ at least: '}
            {formatShares(count, before, after)}
          </strong>
        )}
      </span>
      {timeoutNs !== null && (
        <span class="quiet">
          {groupDigits(before)} → {groupDigits(after)} of {groupDigits(count)}
        </span>
      )}
      {unused.length > 0 && <span class="quiet">without the filters {unused.join(', ')}</span>}
    </p>
  );
}
