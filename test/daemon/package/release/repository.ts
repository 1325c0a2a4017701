/** Makes small repositories of git that a release can be made from. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** Time of each commit. */
export const COMMIT_EPOCH_S = 1_790_000_000;
export const VERSION = '0.1.0';

export interface Repository {
  path: string;
  write(path: string, text: string): void;
  git(...args: string[]): string;
  /** Runs git with further variables. */
  gitWith(environment: Record<string, string>, ...args: string[]): string;
  commit(): void;
}

const PERSON = { NAME: 'a person', EMAIL: 'person@example.com', DATE: `${COMMIT_EPOCH_S} +0000` };
const ROLES = Object.entries(PERSON).flatMap(([fact, value]) => [
  [`GIT_AUTHOR_${fact}`, value],
  [`GIT_COMMITTER_${fact}`, value],
]);
// Settings of the user who runs the tests would change what git does.
const ENVIRONMENT = { ...process.env, ...Object.fromEntries(ROLES), GIT_CONFIG_GLOBAL: '/dev/null' };

/** Makes a repository with one commit in a new folder. */
export function newRepository(path: string): Repository {
  const gitWith = (environment: Record<string, string>, ...args: string[]) => {
    const env = { ...ENVIRONMENT, ...environment };
    return execFileSync('git', args, { cwd: path, encoding: 'utf8', env, stdio: ['ignore', 'pipe', 'pipe'] });
  };
  const git = (...args: string[]) => gitWith({}, ...args);
  const repository: Repository = {
    path,
    git,
    gitWith,
    write(name, text) {
      mkdirSync(dirname(join(path, name)), { recursive: true });
      writeFileSync(join(path, name), text);
    },
    commit() {
      git('add', '--all');
      git('commit', '--quiet', '--message', 'change');
    },
  };
  mkdirSync(path, { recursive: true });
  git('init', '--quiet');
  repository.write('package.json', JSON.stringify({ name: 'kreplay', version: VERSION }));
  repository.write('CHANGELOG.md', `# Changelog\n\n## ${VERSION} - Unreleased\n\n### Added\n- A change.\n`);
  repository.write('.gitignore', 'build/\n');
  repository.write('folder/text', 'one\ntwo\n');
  repository.commit();
  return repository;
}
