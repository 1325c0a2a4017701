/**
 * Generates a GitHub workflow that runs a build under an incident, and the GitHub action that other repositories can
 * use.
 */
import { buildJobName, type Job, listRunLines, listUnpackLines } from './job.ts';
import { formatYamlText, indent } from './yaml.ts';

export function buildGitHubWorkflow(job: Job): string {
  const name = buildJobName(job);
  const lines = [
    `name: ${name}`,
    'on: [push, pull_request]',
    'permissions:',
    '  contents: read',
    'jobs:',
    '  incident:',
    '    runs-on: ubuntu-24.04',
    '    env:',
    '      # Where kreplay-ci_VERSION_linux_amd64.tar.gz of a release is, and its checksum in SHA256SUMS.',
    `      KREPLAY_CI_URL: ${formatVariable('KREPLAY_CI_URL', job.archiveUrl)}`,
    `      KREPLAY_CI_SHA256: ${formatVariable('KREPLAY_CI_SHA256', job.archiveSha256)}`,
    '    steps:',
    '      - uses: actions/checkout@v5',
    '      - name: unpack kreplay',
    '        run: |',
    ...indent(withoutExpressions(listUnpackLines('$RUNNER_TEMP')), 10),
    '          echo "$RUNNER_TEMP/kreplay-ci/bin" >> "$GITHUB_PATH"',
    '      # What only compiles belongs in a step of its own, before this one.',
    '      - name: run under the incident',
    '        run: |',
    ...indent(withoutExpressions(listRunLines('kreplay', job)), 10),
    '      - uses: actions/upload-artifact@v4',
    '        if: always()',
    '        with:',
    '          name: replay',
    '          path: replay.*',
  ];
  return `${lines.join('\n')}\n`;
}

function formatVariable(name: string, value: string | undefined): string {
  if (value === undefined) return `\${{ vars.${name} }}`;
  return withoutExpressions([formatYamlText(value)]).join('');
}

/** Escapes `${{ }}`, which GitHub evaluates anywhere in a workflow: an unescaped name could read secrets. */
function withoutExpressions(lines: readonly string[]): string[] {
  return lines.map((line) => line.replaceAll('${{', `\${{ '\${{' }}`));
}

const INPUTS = {
  'archive-url': {
    about: 'where kreplay-ci_VERSION_linux_amd64.tar.gz of a release is',
    variable: 'KREPLAY_CI_URL',
    byDefault: null,
  },
  'archive-sha256': {
    about: 'its checksum, as in SHA256SUMS of the release',
    variable: 'KREPLAY_CI_SHA256',
    byDefault: null,
  },
  bundle: { about: 'file of `kreplay export`', variable: 'INCIDENT_BUNDLE', byDefault: null },
  transaction: { about: 'transaction of the incident', variable: 'INCIDENT_TRANSACTION', byDefault: null },
  command: { about: 'command for bash', variable: 'INCIDENT_COMMAND', byDefault: null },
  service: { about: 'only the calls of this service', variable: 'INCIDENT_SERVICE', byDefault: '' },
  map: { about: 'HERE=THERE, one a line, or auto', variable: 'INCIDENT_MAP', byDefault: '' },
  require: { about: 'replayed, partial or none', variable: 'INCIDENT_REQUIRE', byDefault: 'partial' },
  reports: {
    about: 'path of the reports, without their ends .xml, .html and .json',
    variable: 'INCIDENT_REPORTS',
    byDefault: 'replay',
  },
} as const;

const RUN_LINES = [
  'words=(--bundle "$INCIDENT_BUNDLE" --transaction "$INCIDENT_TRANSACTION" --require "$INCIDENT_REQUIRE")',
  'if [ -n "$INCIDENT_SERVICE" ]; then words+=(--service "$INCIDENT_SERVICE"); fi',
  'while IFS= read -r map; do',
  '  if [ -n "$map" ]; then words+=(--map "$map"); fi',
  'done <<< "$INCIDENT_MAP"',
  'words+=(--junit "$INCIDENT_REPORTS.xml" --html "$INCIDENT_REPORTS.html" --report "$INCIDENT_REPORTS.json")',
  'kreplay="$RUNNER_TEMP/kreplay-ci/bin/kreplay"',
  `"$kreplay" run "\${words[@]}" -- bash --noprofile --norc -eo pipefail -c "$INCIDENT_COMMAND"`,
];

/**
 * Builds the action. Scripts get the inputs as environment variables; pasting an input into a script would allow code
 * injection.
 */
export function buildGitHubAction(): string {
  const inputs = Object.entries(INPUTS);
  const listVariables = (script: readonly string[]) =>
    inputs
      .filter(([, { variable }]) => script.some((line) => line.includes(`$${variable}`)))
      .map(([input, { variable }]) => `${variable}: \${{ inputs.${input} }}`);
  const step = (name: string, script: readonly string[]) => [
    `- name: ${name}`,
    '  shell: bash',
    '  env:',
    ...indent(listVariables(script), 4),
    '  run: |',
    ...indent(script, 4),
  ];
  const lines = [
    '# Written by `make gen` from daemon/run/job/github.ts.',
    'name: kreplay run',
    'description: runs a command under a recorded incident, each write and sync as slow as it was then',
    'inputs:',
    ...inputs.flatMap(([input, { about, byDefault }]) => [
      `  ${input}:`,
      `    description: ${formatYamlText(about)}`,
      `    required: ${byDefault === null}`,
      ...(byDefault === null ? [] : [`    default: ${formatYamlText(byDefault)}`]),
    ]),
    'runs:',
    '  using: composite',
    '  steps:',
    ...indent(step('unpack kreplay', listUnpackLines('$RUNNER_TEMP')), 4),
    ...indent(step('run under the incident', RUN_LINES), 4),
  ];
  return `${lines.join('\n')}\n`;
}
