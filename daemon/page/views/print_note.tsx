/** Shows the parts that only a printed page has: the page's address, and rows that a picture does not show. */

import { useLayoutEffect, useMemo, useState } from 'preact/hooks';
import type { ReceivedCoverage } from '../../contract/received.ts';
import type { LanesModel } from '../../model/lanes/model.ts';
import { formatQuantity } from '../../model/wording/amounts.ts';
import { groupDigits } from '../../model/wording/exact_times.ts';
import { formatName } from '../../model/wording/names.ts';
import { listFilters } from '../link/filters.ts';
import { formatLink, type Link } from '../link/link.ts';
import { describeLosses } from '../losses/wording.ts';
import { formatWallClock } from '../numbers/wall_clock.ts';
import { createEventTable, HEADINGS, selectLongestRows } from '../table/rows.ts';
import { showOnPaper } from './theme.ts';

/**
 * Returns whether the page is being printed. Only then does the document contain the parts for paper, and pictures use
 * the light theme.
 */
function usePrinting(): boolean {
  const [isPrinting, setIsPrinting] = useState(false);
  useLayoutEffect(() => {
    const medium = matchMedia('print');
    const change = (isPrinted: boolean) => {
      showOnPaper(isPrinted);
      setIsPrinting(isPrinted);
    };
    const begin = () => change(true);
    const end = () => change(false);
    const followMedium = () => change(medium.matches);
    window.addEventListener('beforeprint', begin);
    window.addEventListener('afterprint', end);
    medium.addEventListener('change', followMedium);
    followMedium();
    return () => {
      window.removeEventListener('beforeprint', begin);
      window.removeEventListener('afterprint', end);
      medium.removeEventListener('change', followMedium);
    };
  }, []);
  return isPrinting;
}

/** Shows the page's address, the window and filters that it selects, and which events are missing. */
export function PrintNote({ link, coverage }: { link: Link; coverage: ReceivedCoverage | null }) {
  if (!usePrinting()) return null;
  const filters = listFilters(link).map(({ name, value }) => `${name} ${formatName(value)}`);
  if (link.has_error) filters.push('with failed calls only');
  return (
    <footer class="printed">
      <p>{`${location.origin}${location.pathname}${formatLink(link)}`}</p>
      <p>
        Window: {formatWindow(link)}. Filters: {filters.length > 0 ? filters.join(', ') : 'none'}.
      </p>
      <p>{coverage === null ? 'It is not known what is missing.' : describeMissing(coverage)}</p>
    </footer>
  );
}

function formatWindow({ from, to }: Link): string {
  if (from === null && to === null) return 'everything recorded';
  const since = from === null ? 'the start' : formatWallClock(from);
  return `${since} to ${to === null ? 'the end' : formatWallClock(to)} (UTC)`;
}

function describeMissing(coverage: ReceivedCoverage): string {
  const { complete, recorded_until } = coverage;
  const until = recorded_until === null ? '' : ` Recorded until ${formatWallClock(BigInt(recorded_until))} (UTC).`;
  if (complete) return `Nothing is known to be missing.${until}`;
  return `Missing: ${describeLosses(coverage)}.${until}`;
}

const ROWS_MAX = 50;
/** Headings of the printed columns; paper is too narrow for all columns. */
const PRINTED = ['Start', 'Duration', 'Call', 'File or device', 'Result', 'Node', 'Service', 'Command', 'tid'] as const;
const CELLS = PRINTED.map((heading) => HEADINGS.indexOf(heading));

/** Prints the longest events of a picture, in order of start. */
export function PrintedEvents({ model }: { model: LanesModel }) {
  const isPrinting = usePrinting();
  const table = useMemo(() => {
    if (!isPrinting) return null;
    const rows = selectLongestRows(model.columns, ROWS_MAX);
    return createEventTable(model.columns, BigInt(model.firstNs), rows);
  }, [isPrinting, model]);
  if (!table) return null;
  return (
    <table class="printed">
      <caption>
        {table.rowCount < model.columns.count
          ? `The ${table.rowCount} longest of ${groupDigits(model.columns.count)} events`
          : formatQuantity(table.rowCount, 'event')}
      </caption>
      <thead>
        <tr>
          {PRINTED.map((heading) => (
            <th scope="col" key={heading}>
              {heading}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {Array.from({ length: table.rowCount }, (_, line) => {
          const cells = table.formatLine(line);
          return (
            <tr key={line}>
              {CELLS.map((at) => (
                <td key={at}>{cells[at] === '' ? '' : formatName(cells[at]!)}</td>
              ))}
            </tr>
          );
        })}
      </tbody>
    </table>
  );
}
