/** `make gen`: writes the tables of the documentation pages from the code that they describe. */
import { readFileSync, writeFileSync } from 'node:fs';
import { formatEventTables, formatLossTable, formatOwnerTables, replaceGenerated } from '../../bpf/schema/docs.ts';
import { ERRORS } from '../base/problem.ts';
import { ENDPOINTS } from '../contract/openapi.ts';
import { createMetrics, type MetricDescription } from '../metrics/metrics.ts';
import { createWatchMetrics } from '../metrics/watch_metrics.ts';
import { limitTable } from './limit_table.ts';

function buildErrorTable(): string {
  const rows = Object.entries(ERRORS).map(([code, { status, title }]) => `| \`${code}\` | ${status} | ${title} |`);
  return ['| code | status | title |', '|---|---|---|', ...rows].join('\n');
}

function buildEndpointTable(): string {
  const rows = ENDPOINTS.map(
    ({ method, path, summary, curl }) => `| \`${method.toUpperCase()} ${path}\` | ${summary} | \`curl -s ${curl}\` |`,
  );
  return ['| endpoint | answer | command |', '|---|---|---|', ...rows].join('\n');
}

function buildMetricTable(metrics: readonly MetricDescription[]): string {
  const rows = metrics.map(
    ({ name, help, labelNames }) =>
      `| \`${name}\` | ${labelNames.map((label) => `\`${label}\``).join(', ')} | ${help} |`,
  );
  return ['| metric | labels | meaning |', '|---|---|---|', ...rows].join('\n');
}

/** Maps each page to its generated parts, and the name of each part to its text. */
const GENERATED: Readonly<Record<string, Readonly<Record<string, () => string>>>> = {
  'agent/docs/events.md': { events: formatEventTables, owners: formatOwnerTables, losses: formatLossTable },
  'daemon/docs/api.md': { endpoints: buildEndpointTable, errors: buildErrorTable },
  'daemon/docs/operate.md': { metrics: () => buildMetricTable(createMetrics().describeMetrics()), limits: limitTable },
  'daemon/docs/watch.md': { metrics: () => buildMetricTable(createWatchMetrics().describeMetrics()) },
};

export const GENERATED_PAGES: readonly string[] = Object.keys(GENERATED);

/** Returns the text of a page with its generated parts made from the current code. */
export function refreshPage(page: string, text: string): string {
  const parts = Object.entries(GENERATED[page] ?? {});
  return parts.reduce((fresh, [part, table]) => replaceGenerated(fresh, part, table()), text);
}

if (import.meta.main) {
  for (const page of GENERATED_PAGES) {
    const path = new URL(`../../${page}`, import.meta.url);
    writeFileSync(path, refreshPage(page, readFileSync(path, 'utf8')));
  }
}
