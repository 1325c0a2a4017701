/** Renders a run as one HTML page that has no scripts and makes no network requests. */
import type { DelayPlan } from '../plan/compile.ts';
import type { Figures } from './figures.ts';
import { escapeMarkup } from './markup.ts';
import type { CallReport } from './read_report.ts';
import type { RunResult } from './result.ts';
import { formatShortDuration, formatSummaryLines } from './summary.ts';
import { timeLines } from './time_lines.ts';

const STREAMS_MAX = 50;

const STYLE = `
body { font: 14px/1.5 system-ui, sans-serif; margin: 2rem; color: #1d2026; background: #fff; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { text-align: left; padding: 2px 12px 2px 0; border-bottom: 1px solid #ddd; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
svg { width: 100%; font-size: 12px; }
rect.planned { fill: #c2410c; }
rect.run { fill: #1d4ed8; }
line { stroke: #ddd; }
code { background: #f3f4f6; }
.key { display: inline-block; width: 1em; height: 1em; vertical-align: -2px; }
`;

const POLICY = "default-src 'none'; style-src 'unsafe-inline'";

export function buildHtmlReport(result: RunResult, plan: DelayPlan, calls: CallReport): string {
  const { settings, verdict, figures } = result;
  const title = escapeMarkup(`kreplay run: ${settings.transaction_id}: ${verdict}`);
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${POLICY}">
<meta name="viewport" content="width=device-width">
<title>${title}</title>
<style>${STYLE}</style>
</head>
<body>
<h1>${title}</h1>
<p><code>${escapeMarkup(settings.command.join(' '))}</code>, seed ${settings.seed}, mode ${escapeMarkup(settings.mode)}</p>
<ul>
${formatSummaryLines(result)
  .map((line) => `<li>${escapeMarkup(line)}</li>`)
  .join('\n')}
</ul>
<h2>Incident and run</h2>
<p><span class="key" style="background:#c2410c"></span> what the incident's calls took, scaled;
<span class="key" style="background:#1d4ed8"></span> how long the run's calls were held</p>
${timeLines(plan, calls)}
${figures ? buildSlowestTable(figures) + buildStreamTable(figures) : ''}
</body>
</html>
`;
}

function buildSlowestTable({ slowest }: Figures): string {
  const rows = slowest.map(({ target_ns, offset_ns, fate, run_offset_ns, held_ns, op, path, comm }) => [
    formatShortDuration(target_ns),
    formatShortDuration(offset_ns),
    fate,
    run_offset_ns === null ? '' : formatShortDuration(run_offset_ns),
    held_ns === null ? '' : formatShortDuration(held_ns),
    `${op} ${path}`,
    comm,
  ]);
  return buildTable('The slowest events', ['planned', 'at', 'fate', 'in the run at', 'held', 'call', 'thread'], rows);
}

function buildStreamTable({ streams }: Figures): string {
  const rows = streams
    .slice(0, STREAMS_MAX)
    .map(({ op_class, path, role, recorded_events, calls, how, missing_events, injected_ns }) => [
      `${op_class} ${path}`,
      role,
      `${recorded_events}`,
      `${calls}`,
      `${how.exact}`,
      `${how.size + how.window}`,
      `${how.extra + how.distribution + how.stall}`,
      `${missing_events}`,
      formatShortDuration(injected_ns),
    ]);
  const headings = ['path', 'threads', 'recorded', 'calls', 'exact', 'near', 'other', 'missing', 'injected'];
  return buildTable('Paths', headings, rows);
}

function buildTable(title: string, headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const buildCell = (text: string) => `<td${/^-?\d/.test(text) ? ' class="number"' : ''}>${escapeMarkup(text)}</td>`;
  return `<h2>${title}</h2>
<table>
<tr>${headings.map((heading) => `<th>${heading}</th>`).join('')}</tr>
${rows.map((row) => `<tr>${row.map(buildCell).join('')}</tr>`).join('\n')}
</table>
`;
}
