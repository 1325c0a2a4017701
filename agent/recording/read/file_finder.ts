/** Finds files by path. No index has paths, so what was found is kept, and only files that are new are looked at. */
import type Database from 'better-sqlite3';
import { RecentMap } from '../recent_map.ts';

const LAST = 'SELECT coalesce(max(file_id), 0) FROM file';
const NAMED = 'SELECT file_id FROM file WHERE file_id > :after AND file_id <= :last AND path = :text';
const BEGINNING = `
SELECT file_id
FROM file
WHERE file_id > :after AND file_id <= :last AND substr(path, 1, length(:text)) = :text`;

/** Together these bound the memory, whatever clients ask. */
const PATTERNS_MAX = 16;
const IDS_MAX = 65_536;

/** Returns the ids of a path, or, if it ends in a star, of all that begin with what precedes it. */
export function fileFinder(database: Database.Database): (pattern: string) => number[] {
  const lastId = database.prepare<[], number>(LAST).pluck();
  const [named, beginning] = [NAMED, BEGINNING].map((sql) => database.prepare<[object], number>(sql).pluck());
  const known = new RecentMap<string, { ids: number[]; last: number }>(PATTERNS_MAX);
  return (pattern) => {
    const { ids: before, last: after } = known.get(pattern) ?? { ids: [], last: 0 };
    const last = lastId.get()!;
    if (last === after) return before;
    const isPrefix = pattern.endsWith('*');
    const bounds = { after, last, text: isPrefix ? pattern.slice(0, -1) : pattern };
    const ids = [...before, ...(isPrefix ? beginning! : named!).all(bounds)];
    if (ids.length <= IDS_MAX) known.set(pattern, { ids, last });
    return ids;
  };
}
