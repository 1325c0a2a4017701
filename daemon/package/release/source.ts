/** The commit from which a release is made: checks of the repository's state, and the archive of the commit's files. */
import { existsSync, readFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { gzipSync } from 'node:zlib';
import { findReleaseDate } from './changelog.ts';
import { call, ProgramFailed, ReleaseError } from './programs.ts';

export interface Source {
  /** Folder of the repository. */
  project: string;
  version: string;
  commit: string;
  /** Time of the commit. */
  epoch_s: number;
  /** Release date of the version in CHANGELOG.md; undefined if the version is not released. */
  date: string | undefined;
  /**
   * Whether this clone has a tag for the version. Such a tag always names the commit, because `checkTag` refuses any
   * other.
   */
  isTagged: boolean;
}

/** Maximum number of changed files that an error message names. */
const NAMED_MAX = 10;
const ARCHIVE_LEVEL = 9;

/**
 * Runs git. safe.directory=* is necessary because tests and CI systems run as root on a repository that may belong to
 * another user.
 */
const git = async (project: string, ...args: string[]): Promise<string> => {
  // `log.showSignature=false`: with this setting on, git would print gpg's lines before the requested ones.
  const settings = ['-c', 'safe.directory=*', '-c', 'log.showSignature=false'];
  return (await call('git', [...settings, ...args], { folder: project })).toString();
};

/**
 * Reads the source of a release.
 * @throws ReleaseError if the state of the repository does not allow a release
 */
export async function readSource(project: string): Promise<Source> {
  await refuseOtherThanRepository(project);
  await refuseChanges(project);
  await refuseOwnAttributes(project);
  const { version } = JSON.parse(readFileSync(join(project, 'package.json'), 'utf8')) as { version: string };
  const date = findReleaseDate(readFileSync(join(project, 'CHANGELOG.md'), 'utf8'), version);
  const [commit, epoch] = (await git(project, 'log', '-1', '--format=%H %ct')).trim().split(' ');
  const isTagged = await checkTag(project, `v${version}`, commit!);
  return { project, version, commit: commit!, epoch_s: Number(epoch), date, isTagged };
}

/**
 * Throws an error if `project` is not the top folder of a repository. An unpacked archive inside another repository is
 * not a commit of that repository.
 */
async function refuseOtherThanRepository(project: string): Promise<void> {
  try {
    if ((await git(project, 'rev-parse', '--show-prefix')).trim() === '') return;
  } catch (error) {
    if (!(error instanceof ProgramFailed)) throw error;
  }
  throw new ReleaseError(
    `${project} is not a clone of a git repository, so no commit says what is released; make deb and make ci-archive build from an archive, with SOURCE_DATE_EPOCH set to its date`,
  );
}

async function refuseChanges(project: string): Promise<void> {
  const lines = (await git(project, 'status', '--porcelain')).split('\n').filter((line) => line !== '');
  if (lines.length === 0) return;
  const rest = lines.length > NAMED_MAX ? [`and ${lines.length - NAMED_MAX} more`] : [];
  throw new ReleaseError(
    [
      'a release is made from a commit, and these files are not as in the last one:',
      ...[...lines.slice(0, NAMED_MAX), ...rest].map((line) => `  ${line}`),
      'commit them, or put them aside (git stash --include-untracked; git stash pop brings them back), and run make release again',
    ].join('\n'),
  );
}

/**
 * Throws an error if the clone has a file info/attributes. `git archive` changes its output according to this file, and
 * no git setting turns this off.
 */
async function refuseOwnAttributes(project: string): Promise<void> {
  const path = resolve(project, (await git(project, 'rev-parse', '--git-path', 'info/attributes')).replace(/\n$/, ''));
  if (!existsSync(path)) return;
  throw new ReleaseError(
    `${path} changes what git puts into an archive, and is in no commit: move its lines to .gitattributes and commit that, or remove the file, and run make release again`,
  );
}

/**
 * Checks that the version's tag, if it exists, names this commit, because a version is released only once. Returns
 * whether the tag exists.
 */
async function checkTag(project: string, tag: string, commit: string): Promise<boolean> {
  const list = ['for-each-ref', '--format=%(objectname) %(*objectname)', `refs/tags/${tag}`];
  // For an annotated tag, the line has the tag object first and then the commit.
  const tagged = (await git(project, ...list)).trim().split(' ').at(-1)!;
  if (tagged === '' || tagged === commit) return tagged !== '';
  throw new ReleaseError(
    `the tag ${tag} names another commit, ${tagged}: check that out to make its release again, or raise "version" in package.json`,
  );
}

/** Builds the archive of the commit's files, below the folder `top`. It does not depend on the user's git settings. */
export async function buildSourceArchive({ project, commit }: Source, top: string): Promise<Buffer> {
  // Git settings and attributes of the user or of the machine could change file modes, line ends, and the set of files.
  const ofNobody = { GIT_CONFIG_GLOBAL: '/dev/null', GIT_CONFIG_NOSYSTEM: '1', GIT_ATTR_NOSYSTEM: '1' };
  const environment = { ...process.env, ...ofNobody };
  const ofFiles = ['tar.umask=0022', 'core.autocrlf=false', 'core.eol=lf', 'core.attributesFile=/dev/null'];
  const settings = ['safe.directory=*', ...ofFiles];
  const words = settings.flatMap((setting) => ['-c', setting]);
  const archive = ['archive', '--format=tar', `--prefix=${top}/`, commit];
  return gzipSync(await call('git', [...words, ...archive], { folder: project, environment }), {
    level: ARCHIVE_LEVEL,
  });
}
