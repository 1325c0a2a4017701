/** Shows the calls of two sides; the call with the largest change comes first. */
import { formatRate } from '../../../model/wording/amounts.ts';
import {
  formatExactDuration,
  formatExactOffset,
  formatShortDuration,
  groupDigits,
} from '../../../model/wording/exact_times.ts';
import { formatName } from '../../../model/wording/names.ts';
import type { CallTotals, JoinedRow, Lengths } from '../../compare/sums.ts';
import { type Heading, ScrolledRows } from '../scrolled_rows.tsx';
import { formatSignedDuration } from '../time_spent.tsx';

interface Props {
  rows: readonly JoinedRow[];
  /** Whether events are missing, for each side. */
  isLossy: { a: boolean; b: boolean };
  /** Lengths of the windows if they differ; otherwise null. */
  lengths: Lengths | null;
}

const number = (name: string): Heading => ({ name, isNumber: true });

export function SumsTable({ rows, isLossy, lengths }: Props) {
  const headings = [
    ...['Call', 'File or device', 'Service'].map((name) => ({ name })),
    number(lengths ? 'Change a second' : 'Change'),
    ...['Count A', 'Count B', 'Total A', 'Total B', 'p50 A', 'p50 B', 'p99 A', 'p99 B'].map(number),
    { name: 'Only in' },
  ];
  return (
    <section class="panel">
      <h2>Calls by what changed most</h2>
      <ScrolledRows
        label="Calls of both sides"
        headings={headings}
        rowCount={rows.length}
        row={(at) => <Cells row={rows[at]!} isLossy={isLossy} lengths={lengths} />}
      />
    </section>
  );
}

function Cells({ row: { call, target, service, a, b, changeNs }, isLossy, lengths }: Omit<Props, 'rows'> & Of) {
  const count = (sums: CallTotals | null, side: 'a' | 'b') => {
    if (!sums) return '–';
    const rate = lengths ? `, ${formatRate((sums.count * 1e9) / Number(lengths[side]))}/s` : '';
    const failed = sums.failed > 0 ? `, ✕ ${groupDigits(sums.failed)}` : '';
    return `${isLossy[side] ? '≥ ' : ''}${groupDigits(sums.count)}${failed}${rate}`;
  };
  const time = (sums: CallTotals | null, field: 'totalNs' | 'p50Ns' | 'p99Ns') =>
    sums ? <span title={formatExactDuration(sums[field])}>{formatShortDuration(sums[field])}</span> : '–';
  return (
    <>
      <th scope="row">{formatName(call)}</th>
      <td>{target === null ? '' : formatName(target)}</td>
      <td>{formatName(service)}</td>
      <td class="number" title={formatExactOffset(changeNs)}>
        {formatSignedDuration(changeNs)}
      </td>
      <td class="number">{count(a, 'a')}</td>
      <td class="number">{count(b, 'b')}</td>
      {(['totalNs', 'p50Ns', 'p99Ns'] as const).flatMap((field) => [
        <td key={`${field} a`} class="number">
          {time(a, field)}
        </td>,
        <td key={`${field} b`} class="number">
          {time(b, field)}
        </td>,
      ])}
      <td>{a ? (b ? '' : '◁ A') : '▷ B'}</td>
    </>
  );
}

interface Of {
  row: JoinedRow;
}
