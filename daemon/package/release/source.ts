/** The commit that a release is made from: what is refused, and the archive of its files. */
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
  /** Date in CHANGELOG.md; undefined as long as the version is not released. */
  date: string | undefined;
  /** Whether the tag of the version names the commit, in this clone. */
  isTagged: boolean;
}

/** Number of changed files that a message names. */
const NAMED_MAX = 10;
const ARCHIVE_LEVEL = 9;

/** The tests and CI systems run as root, on a repository that may belong to another user. */
const git = async (project: string, ...args: string[]): Promise<string> => {
  // With the user's setting, `git log` would print gpg's lines before those that are asked for.
  const settings = ['-c', 'safe.directory=*', '-c', 'log.showSignature=false'];
  return (await call('git', [...settings, ...args], { folder: project })).toString();
};

/** @throws ReleaseError if the repository is not in a state that a release can be made from */
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

/** The files of an archive that lie in another repository are not a commit of that one. */
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

/** `git archive` leaves out and rewrites files as this file of a clone says, and no setting of git turns that off. */
async function refuseOwnAttributes(project: string): Promise<void> {
  const path = resolve(project, (await git(project, 'rev-parse', '--git-path', 'info/attributes')).replace(/\n$/, ''));
  if (!existsSync(path)) return;
  throw new ReleaseError(
    `${path} changes what git puts into an archive, and is in no commit: move its lines to .gitattributes and commit that, or remove the file, and run make release again`,
  );
}

/** A version is released once: its tag, if there is one, names the commit. Returns whether there is one. */
async function checkTag(project: string, tag: string, commit: string): Promise<boolean> {
  const list = ['for-each-ref', '--format=%(objectname) %(*objectname)', `refs/tags/${tag}`];
  // An annotated tag has an object of its own, and the commit after it.
  const tagged = (await git(project, ...list)).trim().split(' ').at(-1)!;
  if (tagged === '' || tagged === commit) return tagged !== '';
  throw new ReleaseError(
    `the tag ${tag} names another commit, ${tagged}: check that out to make its release again, or raise "version" in package.json`,
  );
}

/** Builds the archive of the commit's files below one folder, which has the same bytes whatever the user's settings are. */
export async function buildSourceArchive({ project, commit }: Source, top: string): Promise<Buffer> {
  // Settings and attributes of a user and of the machine would change modes, ends of lines, and which files there are.
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
