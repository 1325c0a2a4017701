/** Generates the two scripts of a CI job: one unpacks kreplay, and the other runs the command under an incident. */
import { quoteForShell } from '../report/map_option.ts';

export interface Job {
  /** Path of the bundle in the repository. */
  bundle: string;
  transaction: string;
  service: string | undefined;
  maps: readonly string[];
  require: string;
  command: readonly string[];
  /** URL of the kreplay archive. If undefined, the job reads the URL from the CI variable KREPLAY_CI_URL. */
  archiveUrl: string | undefined;
  /** SHA-256 checksum of the archive. If undefined, the job reads it from the CI variable KREPLAY_CI_SHA256. */
  archiveSha256: string | undefined;
}

/** Returns a name for the job that contains only letters, digits, `-`, `.` and `_`. */
export function buildJobName({ transaction }: Job): string {
  const plain = transaction.replaceAll(/[^A-Za-z0-9._]+/g, '-').replaceAll(/^[.-]+|-+$/g, '');
  return `incident-${plain.slice(0, 60) || 'run'}`;
}

/** Returns the lines that download the archive, check it and unpack it into `folder`, which is put in double quotes. */
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

/**
 * Quotes a map for the shell, which still expands a `$PWD` at the start of the map: the job's working folder may have
 * another path in each run.
 */
function quoteMap(map: string): string {
  const rest = /^\$PWD(?=[/=])(.*)$/.exec(map)?.[1];
  if (rest === undefined) return map === 'auto' ? map : quoteForShell(map);
  return /^[\w@%+=,.:/~ -]*$/.test(rest) ? `"$PWD${rest}"` : `"$PWD"${quoteForShell(rest)}`;
}
