/** Generates a GitLab CI job that runs a build under an incident. */
import { buildJobName, type Job, listRunLines, listUnpackLines } from './job.ts';
import { formatYamlText, indent } from './yaml.ts';

export function buildGitLabJob(job: Job): string {
  const variables = Object.entries({ KREPLAY_CI_URL: job.archiveUrl, KREPLAY_CI_SHA256: job.archiveSha256 });
  const given = variables.filter((variable): variable is [string, string] => variable[1] !== undefined);
  const lines = [
    '# Without a value here: variables of the project say where kreplay-ci_VERSION_linux_amd64.tar.gz of a release is',
    '# (KREPLAY_CI_URL), and its checksum in SHA256SUMS (KREPLAY_CI_SHA256).',
    `${buildJobName(job)}:`,
    ...(given.length > 0 ? ['  variables:'] : []),
    // GitLab expands `$NAME` in values, so `$` is doubled.
    ...given.map(([name, value]) => `    ${name}: ${formatYamlText(value.replaceAll('$', '$$$$'))}`),
    '  script:',
    '    - |',
    ...indent(listUnpackLines('.'), 6),
    '    # What only compiles belongs before this line.',
    '    - |',
    ...indent(listRunLines('kreplay-ci/bin/kreplay', job), 6),
    '  artifacts:',
    '    when: always',
    '    paths: [replay.html]',
    '    reports:',
    '      junit: replay.xml',
  ];
  return `${lines.join('\n')}\n`;
}
