/** `kreplay ci init`: writes the definition of a CI job that runs a build under an incident. */
import { createHash } from 'node:crypto';
import { createReadStream, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, relative, resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { Command, InvalidArgumentError, Option } from 'commander';
import { addHelpEnd } from '../../../agent/config/help.ts';
import { escapeControls } from '../../../agent/output/printable.ts';
import { ExportError, runWithWriteErrors, toWriteError } from '../../export/errors.ts';
import { createHiddenFile, refuseTaken } from '../../export/new_file.ts';
import { openSource } from '../../export/source.ts';
import { buildGitHubWorkflow } from '../../run/job/github.ts';
import { buildGitLabJob } from '../../run/job/gitlab.ts';
import { buildJobName, type Job } from '../../run/job/job.ts';
import { quoteForShell } from '../../run/report/map_option.ts';
import { AUTOMATIC_MAP, addRequireOption, collectPathMaps } from '../options/run_options.ts';

interface Options {
  provider: keyof typeof PROVIDERS;
  transaction?: string;
  service?: string;
  map?: string[];
  require: string;
  archive?: string;
  archiveUrl?: string;
  archiveSha256?: string;
  output?: string;
  force: boolean;
}

const PROVIDERS = {
  github: {
    build: buildGitHubWorkflow,
    findPath: (job: Job) => `.github/workflows/${buildJobName(job)}.yml`,
    advise: () => 'commit the file and the bundle',
  },
  gitlab: {
    build: buildGitLabJob,
    findPath: (job: Job) => `.gitlab/${buildJobName(job)}.yml`,
    advise: (path: string) => `add "include: [{ local: ${path} }]" to .gitlab-ci.yml, and commit both and the bundle`,
  },
} as const;

const DEFAULT_COMMAND = ['make', 'check'];

export function createCiCommand(): Command {
  const command = new Command('ci')
    .summary('write a CI job for an incident')
    .description('write a job of a CI system that runs a build under an incident');
  const init = new Command('init')
    .description('write the job into the repository in the working folder')
    .usage('INCIDENT.kreplay [options] [-- COMMAND [ARGUMENT ...]]')
    .addOption(new Option('--provider <name>', 'CI system').choices(Object.keys(PROVIDERS)).default('github'))
    .option('--transaction <id>', 'transaction of the incident (default: the one that was exported, or the only one)')
    .option('--service <name>', 'replay and judge only the calls of this service of the incident')
    .option(
      '--map <here=there>',
      'path in the job, and its path in the recording; repeatable. $PWD at the start is left to the job (default: auto)',
      collectPathMaps,
    );
  addRequireOption(init)
    .option('--archive <file>', 'kreplay-ci_VERSION_linux_amd64.tar.gz of a release, whose checksum the job is to have')
    .option(
      '--archive-url <url>',
      'where the job gets the archive (default: the variable KREPLAY_CI_URL of the project)',
    )
    .addOption(
      new Option(
        '--archive-sha256 <hex>',
        'checksum of the archive (default: the variable KREPLAY_CI_SHA256 of the project)',
      )
        .argParser(parseSha256)
        .conflicts('archive'),
    )
    .option('--output <path>', 'file to write (default: in .github/workflows or in .gitlab)')
    .option('--force', 'replace an existing file', false)
    .argument('<bundle>', 'file of kreplay export, in the repository')
    .argument('[command...]', 'command that the job runs under the incident, after -- (default: make check)')
    .action(writeJobOfIncident);
  const examples = [
    "kreplay ci init incidents/order-1.kreplay --map '$PWD=/srv/shop' -- make check",
    'kreplay ci init incidents/order-1.kreplay --provider gitlab --archive build/release/kreplay-ci_0.1.0_linux_amd64.tar.gz',
  ];
  addHelpEnd(init, { examples });
  addHelpEnd(command, { examples });
  return command.addCommand(init);
}

async function writeJobOfIncident(bundle: string, words: readonly string[], options: Options): Promise<void> {
  const { provider, service, require, map: maps = [AUTOMATIC_MAP], force } = options;
  const job: Job = {
    bundle: findPlaceInRepository(bundle),
    transaction: chooseTransaction(bundle, options),
    service,
    maps,
    require,
    command: words.length > 0 ? words : DEFAULT_COMMAND,
    archiveUrl: options.archiveUrl,
    archiveSha256: options.archive === undefined ? options.archiveSha256 : await computeSha256(options.archive),
  };
  refuseUnwritable(job);
  const { build, findPath, advise } = PROVIDERS[provider];
  const path = options.output ?? findPath(job);
  writeJob(path, build(job), force);
  process.stdout.write(`kreplay ci: ${escapeControls(path)}: ${escapeControls(advise(path))}\n`);
  if (job.archiveUrl === undefined || job.archiveSha256 === undefined)
    process.stdout.write('kreplay ci: the comment in the file says which variables the project has to have\n');
}

function findPlaceInRepository(bundle: string): string {
  const path = relative('.', resolve(bundle));
  if (!path.startsWith('../')) return path;
  throw new ExportError(
    `${bundle} is outside the working folder: copy it into the repository, and run kreplay ci init there`,
  );
}

const NAMED_MAX = 20;

function chooseTransaction(bundle: string, { transaction, service }: Options): string {
  const source = openSource(bundle);
  try {
    const { reader } = source;
    const all = reader.listTransactions({ limit: NAMED_MAX + 1 });
    const ids = all.map(({ transactionId }) => quoteForShell(transactionId));
    const names = `${ids.slice(0, NAMED_MAX).join(', ')}${ids.length > NAMED_MAX ? ' and others' : ''}`;
    if (all.length === 0) throw new ExportError(`${bundle} has no transaction: export one with --transaction`);
    const [first, ...others] = all;
    const wanted = transaction ?? reader.exportedTransaction();
    const found = wanted === undefined ? undefined : reader.readTransaction(wanted);
    if (transaction === undefined && !found && others.length > 0)
      throw new ExportError(`${bundle} has several transactions: choose one with --transaction: ${names}`);
    const chosen = transaction === undefined ? (found ?? first) : found;
    if (!chosen) throw new ExportError(`${bundle} has no transaction ${transaction}: its transactions are ${names}`);
    if (service !== undefined && !chosen.services.includes(service))
      throw new ExportError(
        `${bundle} has no service ${service} in ${chosen.transactionId}: its services are ${chosen.services.map(quoteForShell).join(', ')}`,
      );
    return chosen.transactionId;
  } finally {
    source.close();
  }
}

async function computeSha256(path: string): Promise<string> {
  const hash = createHash('sha256');
  try {
    await pipeline(createReadStream(path), hash);
  } catch (error) {
    throw new ExportError(
      `${path} cannot be read: make release and make ci-archive build the archive (${(error as Error).message})`,
    );
  }
  return hash.digest('hex');
}

/**
 * Throws an error if a text of the job has control characters or invalid Unicode. A line break would end the line of a
 * script.
 */
function refuseUnwritable(job: Job): void {
  const { bundle, transaction, service = '', maps, command } = job;
  for (const text of [bundle, transaction, service, ...maps, ...command])
    if (escapeControls(text) !== text || !text.isWellFormed() || text.includes('\uFFFD'))
      throw new ExportError(`${escapeControls(text)} has characters that a job cannot have: rename it`);
}

function writeJob(path: string, text: string, force: boolean): void {
  refuseTaken(path, { force });
  runWithWriteErrors(path, () => mkdirSync(dirname(path), { recursive: true }));
  const hidden = createHiddenFile(dirname(path), path);
  try {
    writeFileSync(hidden.path, text);
    hidden.show(path, { force });
  } catch (error) {
    throw toWriteError(error, path);
  } finally {
    hidden.discard();
  }
}

function parseSha256(value: string): string {
  if (/^[0-9a-f]{64}$/i.test(value)) return value.toLowerCase();
  throw new InvalidArgumentError('must be the 64 hexadecimal digits that sha256sum prints');
}
