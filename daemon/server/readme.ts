/** `make gen`: generates the README's tables from the code. */
import { readFileSync, writeFileSync } from 'node:fs';
import { eventTables, replaceGenerated } from '../../bpf/schema/docs.ts';
import { ENDPOINTS } from '../http/contract/openapi.ts';
import { createMetrics } from '../metrics/metrics.ts';
import { ERRORS } from '../problem.ts';

function errorTable(): string {
  const rows = Object.entries(ERRORS).map(([code, { status, title }]) => `| \`${code}\` | ${status} | ${title} |`);
  return ['| code | status | title |', '|---|---|---|', ...rows].join('\n');
}

function endpointTable(): string {
  const rows = ENDPOINTS.map(
    ({ method, path, summary, curl }) => `| \`${method.toUpperCase()} ${path}\` | ${summary} | \`curl -s ${curl}\` |`,
  );
  return ['| | | |', '|---|---|---|', ...rows].join('\n');
}

function metricTable(): string {
  const rows = createMetrics()
    .described()
    .map(
      ({ name, help, labelNames }) =>
        `| \`${name}\` | ${labelNames.map((label) => `\`${label}\``).join(', ')} | ${help} |`,
    );
  return ['| metric | labels | |', '|---|---|---|', ...rows].join('\n');
}

/** Returns the document with its generated parts up to date. */
export function freshReadme(readme: string): string {
  const generated = {
    events: eventTables(),
    endpoints: endpointTable(),
    errors: errorTable(),
    metrics: metricTable(),
  };
  return Object.entries(generated).reduce((text, [part, table]) => replaceGenerated(text, part, table), readme);
}

if (import.meta.main) {
  const path = new URL('../../README.md', import.meta.url);
  writeFileSync(path, freshReadme(readFileSync(path, 'utf8')));
}
