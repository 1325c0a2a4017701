/** Compares reports of `kreplay run`: a run with its incident, or runs with runs. The files never leave the browser. */
import { useEffect, useState } from 'preact/hooks';
import { type ComparedReport, readReport } from '../../../model/run_difference.ts';
import { formatBytes, formatQuantity } from '../../../model/wording/amounts.ts';
import { formatShortDuration, groupDigits } from '../../../model/wording/exact_times.ts';
import { formatName } from '../../../model/wording/names.ts';
import { type Band, compareReports, type ReportComparison, type ReportRow } from '../../compare/report_rows.ts';
import { changeSentence } from '../../compare/sentence.ts';
import { ScrolledRows } from '../scrolled_rows.tsx';
import { formatSignedDuration } from '../time_spent.tsx';

interface Sides {
  a: readonly ReportFile[];
  b: readonly ReportFile[];
}

export function Reports() {
  const [sides, setSides] = useState<Sides>({ a: [], b: [] });
  const [problems, setProblems] = useState<readonly string[]>([]);
  const add = async (side: keyof Sides, files: readonly File[]) => {
    const read = await readFiles(files);
    setProblems(read.problems);
    setSides((before) => ({ ...before, [side]: [...before[side], ...read.reports] }));
  };
  const remove = (side: keyof Sides, file: ReportFile) =>
    setSides((before) => ({ ...before, [side]: before[side].filter((one) => one !== file) }));
  useEffect(() => {
    // Outside the fields, the browser would show a dropped file in place of the page.
    const keep = (event: DragEvent) => event.preventDefault();
    window.addEventListener('dragover', keep);
    window.addEventListener('drop', keep);
    return () => {
      window.removeEventListener('dragover', keep);
      window.removeEventListener('drop', keep);
    };
  }, []);
  const found = sides.b.length > 0 ? compareReports(listReports(sides.a), listReports(sides.b)) : null;
  const incidents = new Set([...sides.a, ...sides.b].map(({ report }) => report.settings.transaction_id));
  return (
    <>
      <h1>{found ? describeReports(found) : 'Choose a report of kreplay run --report as B.'}</h1>
      {problems.map((problem) => (
        <p key={problem} role="alert" class="failure">
          {problem}
        </p>
      ))}
      {incidents.size > 1 && (
        <p class="loss">▲ These are runs of different incidents: {[...incidents].map(formatName).join(', ')}.</p>
      )}
      <div class="drops">
        <Files
          label="A: runs before; without any, the incident"
          files={sides.a}
          onAdd={(files) => void add('a', files)}
          onRemove={(file) => remove('a', file)}
        />
        <Files
          label="B: a run, or several of the same"
          files={sides.b}
          onAdd={(files) => void add('b', files)}
          onRemove={(file) => remove('b', file)}
        />
      </div>
      {found && <ReportTable found={found} />}
    </>
  );
}

const listReports = (files: readonly ReportFile[]) => files.map(({ report }) => report);

interface FilesProps {
  label: string;
  files: readonly ReportFile[];
  onAdd: (files: readonly File[]) => void;
  onRemove: (file: ReportFile) => void;
}

function Files({ label, files, onAdd, onRemove }: FilesProps) {
  const drop = (event: DragEvent) => {
    event.preventDefault();
    onAdd([...(event.dataTransfer?.files ?? [])]);
  };
  const choose = ({ currentTarget }: { currentTarget: HTMLInputElement }) => {
    onAdd([...(currentTarget.files ?? [])]);
    // The field is cleared so that the same file can be chosen again after it has changed.
    currentTarget.value = '';
  };
  return (
    <section class="panel drop" onDrop={drop} aria-label={label}>
      <label>
        {label}
        <input type="file" multiple accept=".json,application/json" onChange={choose} />
      </label>
      <p class="quiet">or drop files here: they stay in this browser</p>
      {files.map((file) => (
        <p key={file.key}>
          {formatName(file.name)}: {formatName(file.report.settings.command.join(' '))},{' '}
          {formatName(file.report.verdict)}{' '}
          <button type="button" onClick={() => onRemove(file)} aria-label={`remove ${formatName(file.name)}`}>
            ✕
          </button>
        </p>
      ))}
    </section>
  );
}

function describeReports({ rows, took_ns: [a, b], verdict, beside }: ReportComparison): string {
  const one = beside === 'incident' ? 'the incident' : a.count > 1 ? 'the runs of A' : 'the run of A';
  const other = b.count > 1 ? 'The runs of B' : 'The run of B';
  if (verdict === 'within') {
    const outside = rows.filter((row) => row.verdict === 'longer' || row.verdict === 'less');
    const paths = outside.length > 0 ? `${formatQuantity(outside.length, 'path')} beyond it` : 'no path is beyond it';
    return `${other} took ${formatBand(b)}, ${one} ${formatBand(a)}: altogether no difference beyond how runs vary, ${paths}.`;
  }
  if (verdict !== 'same' && (a.count > 1 || b.count > 1)) {
    const size = formatShortDuration(Math.abs(b.median - a.median));
    const direction = verdict === 'longer' ? 'longer' : 'less';
    return `${other} took ${size} ${direction} than ${one} in the median, beyond how runs vary.`;
  }
  const parts = rows.map((row) => ({
    name: `${formatName(row.op_class)} ${formatName(row.path)}`,
    // An unknown time counts as 0, as it does in the total.
    changeNs: BigInt(Math.round((row.took_ns[1]?.median ?? 0) - (row.took_ns[0]?.median ?? 0))),
  }));
  return changeSentence(parts, { a: `those of ${one}`, b: 'The calls of the run of B' });
}

const HEADINGS = [
  ...['Calls', 'Path', 'Threads'].map((name) => ({ name })),
  ...['Change', 'Count A', 'Count B', 'Total A', 'Total B'].map((name) => ({ name, isNumber: true })),
  { name: 'What changed' },
];

const VERDICTS: Readonly<Record<ReportRow['verdict'], string>> = {
  new: '▷ only in B',
  vanished: '◁ only in A',
  longer: '▲ longer',
  less: '▽ less',
  same: '= the same',
  within: '≈ within how runs vary',
  unknown: '? time of A not known',
};

function ReportTable({ found: { rows } }: { found: ReportComparison }) {
  return (
    <section class="panel">
      <h2>Paths by what changed most</h2>
      <ScrolledRows
        label="Paths of both sides"
        headings={HEADINGS}
        rowCount={rows.length}
        row={(at) => <Cells row={rows[at]!} />}
      />
    </section>
  );
}

function Cells({ row: { op_class, path, role, calls, took_ns, changeNs, verdict } }: { row: ReportRow }) {
  const isJudged = verdict !== 'within' && verdict !== 'unknown';
  return (
    <>
      <th scope="row">{formatName(op_class)}</th>
      <td>{formatName(path)}</td>
      <td>{formatName(role)}</td>
      <td class="number">{isJudged ? formatSignedDuration(changeNs) : '–'}</td>
      {calls.map((band, side) => (
        <td key={`calls ${side === 0 ? 'A' : 'B'}`} class="number">
          {band ? countText(band) : '?'}
        </td>
      ))}
      {took_ns.map((band, side) => (
        <td key={`took ${side === 0 ? 'A' : 'B'}`} class="number">
          {band ? formatBand(band) : '?'}
        </td>
      ))}
      <td>{VERDICTS[verdict]}</td>
    </>
  );
}

/** Formats a single run as `10.0 ms`, and several runs as `10.0 ms (9.50 ms to 11.2 ms)`. */
function formatBand({ p10, median, p90, count }: Band): string {
  if (count < 2) return formatShortDuration(median);
  return `${formatShortDuration(median)} (${formatShortDuration(p10)} to ${formatShortDuration(p90)})`;
}

function countText({ p10, median, p90 }: Band): string {
  return p10 === p90 ? groupDigits(median) : `${groupDigits(median)} (${groupDigits(p10)} to ${groupDigits(p90)})`;
}

/* Reads files that are dropped or chosen. */

interface ReportFile {
  /** Unique key, because two files may have the same name. */
  key: number;
  name: string;
  report: ComparedReport;
}

/** Maximum size of a file; a report of a hundred thousand paths has about 40 MB. */
const BYTES_MAX = 64 * 2 ** 20;
const FILES_MAX = 100;

let keyCount = 0;

async function readFiles(files: readonly File[]): Promise<{ reports: ReportFile[]; problems: string[] }> {
  const [reports, problems]: [ReportFile[], string[]] = [[], []];
  for (const file of files.slice(0, FILES_MAX)) {
    const read = await readFile(file);
    if ('problem' in read) problems.push(`${formatName(file.name)} ${formatName(read.problem)}`);
    else reports.push({ key: keyCount++, name: file.name, report: read.report });
  }
  if (files.length > FILES_MAX) problems.push(`only the first ${FILES_MAX} of ${files.length} files were read`);
  return { reports, problems };
}

async function readFile(file: File): Promise<ReturnType<typeof readReport>> {
  if (file.size > BYTES_MAX)
    return { problem: `has ${formatBytes(file.size)}, which is no report of kreplay run: it was not read` };
  try {
    return readReport(await file.text());
  } catch (error) {
    // Reading a dropped folder also fails here.
    return { problem: `cannot be read: ${error instanceof Error ? error.message : String(error)}` };
  }
}
