/**
 * Reads CHANGELOG.md. Its first section is for the version in package.json, with the heading `## 0.1.0 - Unreleased`.
 * For a released version, the date replaces `Unreleased`. The first change after a release raises the version and adds
 * a section.
 */
import { ReleaseError } from './programs.ts';

const UNRELEASED = 'Unreleased';

/**
 * Returns the date of the version's section, or undefined if the version is not released.
 * @throws ReleaseError if the first section is for another version, or is empty
 */
export function findReleaseDate(changelog: string, version: string): string | undefined {
  const [, first, ...rest] = changelog.split(/^## /m);
  const [heading = '', ...lines] = first?.split('\n') ?? [];
  const [name, date, ...others] = heading.trim().split(' - ');
  if (name !== version)
    throw new ReleaseError(
      `package.json has version ${version}, and the first section of CHANGELOG.md is ${heading.trim() || 'missing'}: write "## ${version} - ${UNRELEASED}" over what this version changes, or correct "version"`,
    );
  if (rest.some((section) => section.split(/\s/, 1)[0] === version))
    throw new ReleaseError(`CHANGELOG.md has more than one section of ${version}: put them together`);
  if (!lines.some((line) => line.trim() !== '' && !line.startsWith('#')))
    throw new ReleaseError(`the section of ${version} in CHANGELOG.md is empty: write what the version changes`);
  if (date === UNRELEASED && others.length === 0) return undefined;
  if (others.length === 0 && date !== undefined && isDate(date)) return date;
  throw new ReleaseError(
    `the heading "## ${heading.trim()}" of CHANGELOG.md has no date: write "## ${version} - YYYY-MM-DD" for a release, or "## ${version} - ${UNRELEASED}" before it`,
  );
}

function isDate(text: string): boolean {
  const time = new Date(text);
  return /^\d{4}-\d\d-\d\d$/.test(text) && !Number.isNaN(time.getTime()) && time.toISOString().startsWith(text);
}
