/** Patterns of paths as conditions: they mean what `pathTest` of a recording means. */
import { list, or, type Sql, sql, text } from '../../../agent/clickhouse/statements/sql.ts';
import { type Pattern, parsePattern } from '../../base/file_pattern.ts';

/** Whether the path in a column matches one of the patterns. */
export function pathCondition(column: Sql, patterns: readonly string[]): Sql {
  const parsed = [...new Set(patterns)].map(parsePattern);
  const textsOf = (wanted: Pattern['kind']) => parsed.flatMap((one) => (one.kind === wanted ? [one.text] : []));
  const paths = textsOf('path');
  return or([
    ...(paths.length > 0 ? [sql`${column} IN (${list(paths.map(text))})`] : []),
    ...textsOf('beginning').map((beginning) => beginsWith(column, beginning)),
    ...textsOf('folder').map((folder) => isInFolder(column, folder)),
  ]);
}

function beginsWith(column: Sql, beginning: string): Sql {
  return beginning === '' ? sql`1` : sql`startsWith(${column}, ${text(beginning)})`;
}

/** `folder` ends with a slash, and a name without one follows. */
function isInFolder(column: Sql, folder: string): Sql {
  const length = Buffer.byteLength(folder);
  const name = sql`substring(${column}, ${length + 1})`;
  return sql`(${beginsWith(column, folder)} AND length(${column}) > ${length} AND position(${name}, '/') = 0)`;
}
