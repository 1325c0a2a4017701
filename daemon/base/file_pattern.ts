/**
 * Patterns that filters use for paths:
 *
 *   /srv/db      that path
 *   /srv/db*     every path that begins with /srv/db
 *   /srv/db/     the files in that folder, but not in its subfolders
 *
 * Backslashes have a meaning only before a star or slash at the end of the pattern. There, two backslashes stand for
 * one backslash of the path. A single remaining backslash makes the star or slash a part of the path.
 */
import { findFirstAbove } from './binary_search.ts';

export interface Pattern {
  kind: 'path' | 'beginning' | 'folder';
  text: string;
}

/**
 * Returns a function that tests whether a path matches one of the patterns. The test takes hardly longer if there are
 * many patterns.
 */
export function createPathTest(patterns: readonly string[]): (path: string) => boolean {
  const parsed = patterns.map(parsePattern);
  const selectTexts = (wanted: Pattern['kind']) => parsed.flatMap(({ kind, text }) => (kind === wanted ? [text] : []));
  const paths = new Set(selectTexts('path'));
  const folders = new Set(selectTexts('folder'));
  const beginnings = selectShortest(selectTexts('beginning'));
  return (path) => {
    if (paths.has(path)) return true;
    if (folders.size > 0 && folders.has(findFolder(path) ?? '')) return true;
    return beginnings.length > 0 && path.startsWith(findLastUpTo(beginnings, path));
  };
}

/** Returns the pattern that matches only this path. */
export function buildPathPattern(path: string): string {
  const end = path.at(-1);
  return end === '*' || end === '/' ? `${doubleTrailingBackslashes(path.slice(0, -1))}\\${end}` : path;
}

/**
 * Returns the pattern of the folder that a file is in; undefined for a file in the root and for a path without a
 * folder.
 */
export function buildFolderPattern(path: string): string | undefined {
  const folder = findFolder(path);
  return folder === undefined || folder === '/' ? undefined : `${doubleTrailingBackslashes(folder.slice(0, -1))}/`;
}

export function isPatternOfFolder(pattern: string): boolean {
  return parsePattern(pattern).kind === 'folder';
}

export function parsePattern(pattern: string): Pattern {
  const end = pattern.at(-1);
  if (end !== '*' && end !== '/') return { kind: 'path', text: pattern };
  const count = countTrailingBackslashes(pattern.slice(0, -1));
  const text = pattern.slice(0, pattern.length - 1 - Math.ceil(count / 2));
  if (count % 2 === 1) return { kind: 'path', text: text + end };
  return end === '*' ? { kind: 'beginning', text } : { kind: 'folder', text: `${text}/` };
}

/** Returns the folder of a file, with a slash at the end. */
function findFolder(path: string): string | undefined {
  const end = path.lastIndexOf('/');
  return end < 0 || end === path.length - 1 ? undefined : path.slice(0, end + 1);
}

function doubleTrailingBackslashes(text: string): string {
  return text + '\\'.repeat(countTrailingBackslashes(text));
}

function countTrailingBackslashes(text: string): number {
  let start = text.length;
  while (start > 0 && text[start - 1] === '\\') start--;
  return text.length - start;
}

/** Drops each text that begins with another of the texts, and returns the remaining texts sorted. */
function selectShortest(beginnings: readonly string[]): string[] {
  const kept: string[] = [];
  for (const text of beginnings.toSorted((a, b) => (a < b ? -1 : 1))) {
    const last = kept.at(-1);
    if (last === undefined || !text.startsWith(last)) kept.push(text);
  }
  return kept;
}

/**
 * Returns the last text that does not sort after the path, or the first text if all texts sort after the path. No text
 * begins with another text, so only the returned text can be a beginning of the path.
 */
function findLastUpTo(sorted: readonly string[], path: string): string {
  return sorted[Math.max(0, findFirstAbove(sorted, path) - 1)]!;
}
