/** The scripts of a CI job: one unpacks kreplay, the other runs the command under an incident. */
import { quoteForShell } from '../report/map_option.ts';

export interface Job {
  /** Path of the bundle in the repository. */
  bundle: string;
  transaction: string;
  service: string | undefined;
  maps: readonly string[];
  require: string;
  command: readonly string[];
  /** Where the archive is; undefined: the variable KREPLAY_CI_URL of the project says it. */
  archiveUrl: string | undefined;
  /** Checksum of the archive; undefined: the variable KREPLAY_CI_SHA256 of the project says it. */
  archiveSha256: string | undefined;
}

/** Text that names the job: letters, digits and a few signs. */
export function buildJobName({ transaction }: Job): string {
  const plain = transaction.replaceAll(/[^A-Za-z0-9._]+/g, '-').replaceAll(/^[.-]+|-+$/g, '');
  return `incident-${plain.slice(0, 60) || 'run'}`;
}

/** Unpacks the archive that the checksum is about into a folder, which stands in double quotes. */
export function listUnpackLines(folder: string): string[] {
  return [
    'if [ -z "$KREPLAY_CI_URL" ] || [ -z "$KREPLAY_CI_SHA256" ]; then',
    '  echo "kreplay: set KREPLAY_CI_URL, where the archive is, and KREPLAY_CI_SHA256, which sha256sum prints for it" >&2',
    '  exit 125',
    'fi',
    `curl -fsSL --retry 3 -o "${folder}/kreplay-ci.tar.gz" --url "$KREPLAY_CI_URL"`,
    `echo "$KREPLAY_CI_SHA256  ${folder}/kreplay-ci.tar.gz" | sha256sum --check --quiet -`,
    `tar -xzf "${folder}/kreplay-ci.tar.gz" -C "${folder}"`,
  ];
}

export function listRunLines(kreplay: string, job: Job): string[] {
  const { bundle, transaction, service, maps, require, command } = job;
  const groups = [
    [kreplay, 'run', '--bundle', quoteForShell(bundle), '--transaction', quoteForShell(transaction)],
    [
      ...(service === undefined ? [] : ['--service', quoteForShell(service)]),
      ...maps.flatMap((map) => ['--map', quoteMap(map)]),
      '--require',
      require,
    ],
    ['--junit', 'replay.xml', '--html', 'replay.html'],
    ['--', ...command.map(quoteForShell)],
  ];
  return groups.map((words, at) => `${at > 0 ? '  ' : ''}${words.join(' ')}${at < groups.length - 1 ? ' \\' : ''}`);
}

/** The working folder of a job has another name each time, so that `$PWD` at the start of a map is left to the shell. */
function quoteMap(map: string): string {
  const rest = /^\$PWD(?=[/=])(.*)$/.exec(map)?.[1];
  if (rest === undefined) return map === 'auto' ? map : quoteForShell(map);
  return /^[\w@%+=,.:/~ -]*$/.test(rest) ? `"$PWD${rest}"` : `"$PWD"${quoteForShell(rest)}`;
}
