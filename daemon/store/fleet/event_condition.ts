/**
 * Converts a filter of events to a condition on the table `event`. The condition selects the same events as the filter
 * selects in a recording. It omits the filter's times, because the caller reads the table in steps of time.
 */
import { and, fixedText, identifier, list, or, type Sql, sql, text } from '../../../agent/clickhouse/statements/sql.ts';
import { EVENT_COLUMNS, type SourcePart } from '../../../agent/clickhouse/tables/event_columns.ts';
import { SEVERAL_OWNERS } from '../../../agent/clickhouse/tables/schema.ts';
import {
  CONDITION_COLUMNS,
  type EventFilter,
  type EventValues,
  OWN_FIELDS,
  type OwnTexts,
} from '../../../agent/recording/read/event_filter.ts';
import { U64_MAX } from '../../base/bigints.ts';
import { type Pattern, parsePattern } from '../../base/file_pattern.ts';
import { findColumnLabels } from './answer_blocks.ts';

const TRACE_TEXT = /^[0-9a-f]{32}$/;
const NO_TRACE = '0'.repeat(32);

export interface StartRange {
  /** Inclusive bounds of an event's start. */
  firstNs: bigint;
  lastNs: bigint;
}

/** Returns the range of start times that a filter allows; undefined if it allows no time. */
export function computeTimeRange({ fromNs = 0n, toNs = U64_MAX + 1n }: EventFilter): StartRange | undefined {
  const firstNs = fromNs < 0n ? 0n : fromNs;
  const lastNs = toNs > U64_MAX ? U64_MAX : toNs - 1n;
  return firstNs > lastNs ? undefined : { firstNs, lastNs };
}

/** Builds the condition; undefined when no event can match. */
export function buildEventConditionSql(filter: EventFilter): Sql | undefined {
  const { transactionId, traceId, services, nodes, eventTypes, comms, results, pid, excluded = {} } = filter;
  const failed = filter.failed ?? (results && true);
  const conditions: (Sql | undefined)[] = [
    ...buildDurationConditions(filter),
    ...(eventTypes ? [buildInSql('event_type', eventTypes)] : []),
    ...(nodes ? [buildInSql('node', nodes)] : []),
    ...(transactionId !== undefined ? [buildTransactionSql(transactionId)] : []),
    ...(traceId !== undefined ? [buildTraceSql(traceId)] : []),
    ...(services ? [buildServicesSql(services)] : []),
    ...(pid !== undefined ? [sql`pid = ${pid}`] : []),
    ...(comms ? [buildInSql('comm', dropEmptyNames(comms))] : []),
    ...(failed !== undefined ? [failed ? sql`result < 0` : sql`result >= 0`] : []),
    ...(results ? [buildResultSql(results)] : []),
    ...buildOwnConditions(filter),
    ...buildExclusions(excluded),
  ];
  const needed = conditions.filter((condition) => condition !== undefined);
  return needed.length < conditions.length ? undefined : and(needed);
}

/** A condition on the table; undefined if no event can meet it. */
type SqlCondition = Sql | undefined;

function buildDurationConditions({ minDurationNs = 0n, maxDurationNs = U64_MAX }: EventFilter): SqlCondition[] {
  if (minDurationNs > U64_MAX || maxDurationNs < 0n || minDurationNs > maxDurationNs) return [undefined];
  return [
    ...(minDurationNs > 0n ? [sql`duration_ns >= ${minDurationNs}`] : []),
    ...(maxDurationNs < U64_MAX ? [sql`duration_ns <= ${maxDurationNs}`] : []),
  ];
}

function buildInSql(column: string, texts: readonly string[]): SqlCondition {
  const distinct = [...new Set(texts)];
  return distinct.length === 0 ? undefined : sql`${identifier(column)} IN (${list(distinct.map(text))})`;
}

/**
 * Drops empty names from a filter. They match no event, because an empty name in the table means that the name is
 * missing.
 */
export function dropEmptyNames(texts: readonly string[]): string[] {
  return texts.filter((one) => one !== '');
}

function buildResultSql(results: readonly bigint[]): SqlCondition {
  const errors = [...new Set(results)].filter((result) => result < 0n);
  return errors.length === 0 ? undefined : sql`result IN (${list(errors.map((result) => sql`${result}`))})`;
}

function buildTransactionSql(id: string): SqlCondition {
  if (id === '') return undefined;
  return sql`(transaction_id = ${text(id)} OR has(origin_transactions, ${text(id)}))`;
}

/** Returns the bytes of a trace id; undefined for other texts. */
export function parseTraceId(id: string): Buffer | undefined {
  return TRACE_TEXT.test(id) && id !== NO_TRACE ? Buffer.from(id, 'hex') : undefined;
}

function buildTraceSql(id: string): SqlCondition {
  const bytes = parseTraceId(id);
  return bytes && sql`(trace_id = ${fixedText(bytes)} OR has(origin_traces, ${fixedText(bytes)}))`;
}

/**
 * Builds the condition for events of these services. The column `owner` is in the table's key, and suffices except for
 * events with several owning services.
 */
function buildServicesSql(services: readonly string[]): SqlCondition {
  const names = dropEmptyNames(services);
  if (names.length === 0) return undefined;
  const owners = buildInSql('owner', [...names, SEVERAL_OWNERS])!;
  return sql`(${owners} AND (owner != ${text(SEVERAL_OWNERS)} OR ${isOwnedBy(names)}))`;
}

function isOwnedBy(names: readonly string[]): Sql {
  return sql`(${buildInSql('service', names)!} OR hasAny(origin_services, [${list([...new Set(names)].map(text))}]))`;
}

interface OwnColumn {
  texts: keyof OwnTexts;
  column: Sql;
  /** Words that the column can have; undefined if it can have any word. */
  words: ReadonlySet<string> | undefined;
  /**
   * The column with the kind of the file, which is empty for events without a file; undefined if the field is not a
   * file.
   */
  kind: Sql | undefined;
}

/** Columns of fields that only some event types have. For events of other types, these columns are empty. */
const OWN_COLUMNS: readonly OwnColumn[] = CONDITION_COLUMNS.flatMap(({ texts, columns }) =>
  columns.flatMap(({ column }) => {
    const selectPartColumns = (wanted: readonly SourcePart[]) =>
      EVENT_COLUMNS.filter(({ part, source }) => source.name === column.name && wanted.includes(part));
    const [kind] = selectPartColumns(['file_kind']);
    return selectPartColumns(['label', 'text', 'path', 'queuer_transaction']).map(({ name, source }) => ({
      texts,
      column: identifier(name),
      words: findColumnLabels(source) && new Set(findColumnLabels(source)!.values()),
      kind: kind && identifier(kind.name),
    }));
  }),
);

/** Returns one condition for each field in `given`. */
function buildOwnConditions(given: OwnTexts): SqlCondition[] {
  return Object.keys(OWN_FIELDS).flatMap((texts) => {
    const wanted = given[texts as keyof OwnTexts];
    if (!wanted) return [];
    const found = OWN_COLUMNS.filter((own) => own.texts === texts).flatMap(
      (own) => buildOwnColumnSql(own, wanted) ?? [],
    );
    return [found.length === 0 ? undefined : or(found)];
  });
}

function buildOwnColumnSql({ column, words, kind }: OwnColumn, wanted: readonly string[]): SqlCondition {
  if (kind) return wanted.length === 0 ? undefined : sql`(${kind} != '' AND ${buildPathSql(column, wanted)})`;
  const texts = [...new Set(dropEmptyNames(wanted))].filter((one) => !words || words.has(one));
  return texts.length === 0 ? undefined : sql`${column} IN (${list(texts.map(text))})`;
}

/** Builds the conditions for excluded values. Values that no event can have need no condition. */
function buildExclusions(excluded: EventValues): Sql[] {
  const { services = [], nodes = [], eventTypes = [], comms = [], results = [] } = excluded;
  const names = dropEmptyNames(services);
  const unwanted = [
    buildInSql('event_type', eventTypes),
    buildInSql('node', nodes),
    names.length > 0 ? isOwnedBy(names) : undefined,
    buildInSql('comm', dropEmptyNames(comms)),
    buildResultSql(results),
    ...buildOwnConditions(excluded),
  ];
  return unwanted.flatMap((condition) => (condition ? [sql`NOT (${condition})`] : []));
}

/* Conditions for patterns of paths, with the same meaning as `createPathTest` for a recording. */

/** Builds the condition that the path in a column matches one of the patterns. */
function buildPathSql(column: Sql, patterns: readonly string[]): Sql {
  const parsed = [...new Set(patterns)].map(parsePattern);
  const selectTexts = (wanted: Pattern['kind']) => parsed.flatMap((one) => (one.kind === wanted ? [one.text] : []));
  const paths = selectTexts('path');
  return or([
    ...(paths.length > 0 ? [sql`${column} IN (${list(paths.map(text))})`] : []),
    ...selectTexts('beginning').map((beginning) => beginsWith(column, beginning)),
    ...selectTexts('folder').map((folder) => isInFolder(column, folder)),
  ]);
}

function beginsWith(column: Sql, beginning: string): Sql {
  return beginning === '' ? sql`1` : sql`startsWith(${column}, ${text(beginning)})`;
}

/**
 * Builds the condition that a path is directly in a folder: after `folder`, which ends with a slash, it has a name
 * without slashes.
 */
function isInFolder(column: Sql, folder: string): Sql {
  const length = Buffer.byteLength(folder);
  const name = sql`substring(${column}, ${length + 1})`;
  return sql`(${beginsWith(column, folder)} AND length(${column}) > ${length} AND position(${name}, '/') = 0)`;
}
