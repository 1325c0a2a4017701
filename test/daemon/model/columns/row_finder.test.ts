/** Rows found by event ids, in any order and across recordings with the same numbers. */
import fc from 'fast-check';
import { createColumnsBuilder } from '../../../../daemon/model/columns/builder.ts';
import { getEventId } from '../../../../daemon/model/columns/event_columns.ts';
import { createRowFinder } from '../../../../daemon/model/columns/row_finder.ts';

function columnsOf(events: readonly (readonly [recording: number, number: string])[]) {
  const builder = createColumnsBuilder();
  const zeros = events.map(() => 0);
  builder.add(
    JSON.stringify({
      ...{ base_ns: '0', types: { 1: 'sys_write' }, errors: {}, origins: [] },
      recordings: [
        ['00000000000000aa', 'a'],
        ['00000000000000bb', 'b'],
      ],
      threads: [
        [0, 1, 1, 'c', 's'],
        [1, 1, 1, 'c', 's'],
      ],
      ...{ whats: [['write', null, null]], owners: [[null, 'none', 'unknown', null]] },
      ...{ start: zeros.map((_, i) => i), duration: zeros, type: zeros.map(() => 1), what: zeros, owner: zeros },
      ...{ thread: events.map(([recording]) => recording), number: events.map(([, number]) => exact(number)) },
      ...{ result: zeros, bytes: zeros.map(() => null), queue: zeros.map(() => null) },
    }),
  );
  return builder.finish();
}

/** As the daemon writes it: a number that a double cannot hold is a text. */
const exact = (number: string) => (Number.isSafeInteger(Number(number)) ? Number(number) : number);

test('each event is found by its id, whatever was found before', () => {
  const number = fc.bigInt({ min: 1n, max: 2n ** 63n - 1n }).map(String);
  const near = fc.bigInt({ min: 2n ** 60n, max: 2n ** 60n + 9n }).map(String);
  const event = fc.tuple(fc.nat(1), fc.oneof(number, near, fc.nat(20).map(String)));
  const events = fc.uniqueArray(event, { minLength: 1, maxLength: 40, selector: String });
  fc.assert(
    fc.property(events, fc.array(fc.nat(39)), (given, order) => {
      const columns = columnsOf(given);
      const finder = createRowFinder(columns);
      for (const at of [...order.map((place) => place % given.length), ...given.keys()])
        expect(finder.find(getEventId(columns, at))).toBe(at);
    }),
  );
});

test('what is no id, and an event that is not there, is not found', () => {
  const finder = createRowFinder(columnsOf([[0, '7']]));
  for (const id of ['', 'none', '00000000000000bb-0000000000000007', '00000000000000aa-0000000000000008', '7'])
    expect(finder.find(id)).toBe(-1);
});
