/** `kreplay sql`: queries a recording with SQL. */
import { setImmediate } from 'node:timers/promises';
import { Command, Option } from 'commander';
import { addHelpEnd, EXIT_CODES } from '../../../agent/config/help.ts';
import { EVENT_TYPES } from '../../../bpf/schema/index.ts';
import { nowNs } from '../../base/wall_clock.ts';
import { askSql, type SqlValue } from '../../export/sql/sql_query.ts';
import { duration } from '../options/option_values.ts';
import { addRecordingOptions, type RecordingOptions, runWithSource } from '../options/recording_options.ts';
import { createRowPrinter, ROW_FORMATS, type RowFormat } from '../print/row_printers.ts';
import { print } from '../print/standard_output.ts';
import { limitTime } from '../print/time_limit.ts';

const TIMEOUT_NS_DEFAULT = 60_000_000_000n;

/**
 * Maximum number of rows that are aligned as one table. It is also the number of rows after which the command checks
 * whether its reader is gone.
 */
const ROWS = 256;
/** Maximum time for which rows are held back to be aligned with later rows. */
const ALIGN_MS_MAX = 100;

const NOTES = `
Tables: events, ${EVENT_TYPES.join(', ')}, transactions, losses, clock.
Besides their columns, the event tables take these conditions with =:
  of_transaction, of_service, and since, until (2026-11-20T10:00:00Z, nanoseconds, or '-15m')`;

interface Options extends RecordingOptions {
  format: RowFormat;
  /** Maximum time to wait for the next row, in nanoseconds. */
  timeout: bigint;
}

export function createSqlCommand(): Command {
  const command = new Command('sql').description('query a recording in SQL').argument('<query>', 'SELECT ...');
  addRecordingOptions(command)
    .addOption(
      new Option('--format <format>', 'output format')
        .choices(ROW_FORMATS)
        .default(process.stdout.isTTY ? 'table' : 'ndjson', 'table on a terminal, else ndjson'),
    )
    .addOption(
      new Option('--timeout <duration>', 'end the query when its next row takes longer')
        .argParser(duration)
        .default(TIMEOUT_NS_DEFAULT, '60s'),
    )
    .action(ask);
  return addHelpEnd(command, {
    notes: NOTES,
    examples: [
      `kreplay sql "select comm, sum(result) from sys_write where since = '-15m' group by comm"`,
      `kreplay sql "select * from events('order-1')" --recording incident.kreplay --format csv`,
    ],
    exitCodes: { ...EXIT_CODES, 143: 'no further row within --timeout' },
  });
}

async function ask(query: string, options: Options): Promise<void> {
  const ms = Number(options.timeout) / 1e6;
  const limit = limitTime(ms, `kreplay: sql: no rows after ${ms / 1000} s: ask for less, or give --timeout\n`);
  await runWithSource(options, async (source) => {
    const answer = askSql(source, query, nowNs());
    try {
      const printer = createRowPrinter(options.format, answer.columns);
      await printText(printer.formatHead());
      // Rows are printed before the next row is requested, because the query may run for a long time before it finds
      // one.
      const found = limit.limitWaits(answer.rows);
      let count = 0;
      for (const rows of options.format === 'table' ? groupRows(found) : wrapSingleRows(found)) {
        await print(printer.formatRows(rows));
        count += rows.length;
        if (options.format === 'table' || count % ROWS === 0) await setImmediate();
      }
      await printText(printer.formatTail());
    } finally {
      answer.close();
    }
  }).finally(limit.end);
}

function* wrapSingleRows(rows: Iterable<SqlValue[]>): Generator<SqlValue[][]> {
  for (const row of rows) yield [row];
}

function* groupRows(rows: Iterable<SqlValue[]>): Generator<SqlValue[][]> {
  let group: SqlValue[][] = [];
  let beganMs = performance.now();
  for (const row of rows) {
    group.push(row);
    if (group.length < ROWS && performance.now() - beganMs < ALIGN_MS_MAX) continue;
    yield group;
    group = [];
    beganMs = performance.now();
  }
  if (group.length > 0) yield group;
}

async function printText(text: string): Promise<void> {
  await print(text);
  // Yields to the event loop, which detects that the reader is gone.
  await setImmediate();
}
