/** The transactions, traces and spans of a block's contexts. */
import { newTextTable } from '../../clickhouse/native/texts.ts';
import type { ContextText } from '../../recording/format/ids.ts';
import { blockEntries } from './block_texts.ts';

/** Contexts as texts of three columns; zeros are none. */
export function contextTexts(contextOf: (id: number) => ContextText) {
  const tables = { transaction: newTextTable(), trace: newTextTable(), span: newTextTable() };
  const entries = blockEntries<ContextText>({
    find: contextOf,
    keyOf: ({ transactionId, traceId, spanId }) => JSON.stringify([transactionId, traceId, spanId]),
    add({ transactionId, traceId, spanId }) {
      tables.transaction.add(transactionId ?? '');
      tables.trace.add(hexBytes(traceId));
      tables.span.add(hexBytes(spanId));
    },
    clear() {
      for (const table of Object.values(tables)) table.clear();
    },
  });
  return { ...entries, tables };
}

/** No bytes for null: FixedString has zeros then. */
export function hexBytes(text: string | null): Buffer {
  return Buffer.from(text ?? '', 'hex');
}
