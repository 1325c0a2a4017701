/** Tests that columns are derived from the schema: every field of an event has one, and no name occurs twice. */
import { apiEventSchema } from '../../../bpf/schema/api.ts';
import { EVENT_COLUMNS, listTypeColumns } from '../../../daemon/export/flat_columns.ts';

const names = (columns: readonly { name: string }[]) => columns.map(({ name }) => name);

const NESTED: Record<string, string[]> = {
  // Tables of SQL have the time as a number alone; lines of CSV add the text.
  timestamp: [],
  attribution: ['attribution_source', 'attribution_quality'],
  queued_by: ['queued_by_service_name', 'queued_by_transaction_id'],
};

test.each(apiEventSchema.options)('every field of an event type is a column of it', (schema) => {
  const fields = Object.keys(schema.shape).flatMap((name) => NESTED[name] ?? [name]);
  const columns = names(listTypeColumns(schema.shape.event_type.value));
  expect(columns.toSorted()).toEqual(fields.toSorted());
});

test('the columns are the union of those of the types', () => {
  const all = apiEventSchema.options.flatMap((schema) => names(listTypeColumns(schema.shape.event_type.value)));
  expect(names(EVENT_COLUMNS).toSorted()).toEqual([...new Set(all)].toSorted());
});
