/** Tests that server-sent events are read as a parser of the standard reads them, however their text is divided. */
import { createParser } from 'eventsource-parser';
import fc from 'fast-check';
import { createMessageReader, type EventSourceMessage } from '../../daemon/page/api/messages.ts';
import { times } from '../repeats.ts';

const line = fc.oneof(
  fc.constantFrom(
    '',
    '',
    'data',
    'data:',
    'data: ',
    'data:  x',
    'id',
    'event',
    'event:',
    ': hb',
    ':',
    'dataset: x',
    'x',
  ),
  fc.constantFrom('data: {"a":1}', 'data:[: 2]', 'event: lost', 'id: 7', 'id: 8\0', 'id: ', 'retry: 2000', ' data: y'),
  fc.string({ unit: 'grapheme' }).map((text) => `data: ${text.replaceAll(/[\r\n]/g, '')}`),
);
const end = fc.constantFrom('\n', '\n', '\r\n', '\r');
const text = fc.array(fc.tuple(line, end).map((both) => both.join(''))).map((lines) => lines.join(''));

function readAll(parts: readonly string[]): EventSourceMessage[] {
  const found: EventSourceMessage[] = [];
  const read = createMessageReader((message) => found.push(message));
  for (const part of parts) read(part);
  return found;
}

test('any text in any parts gives the messages of the standard', () => {
  fc.assert(
    fc.property(text, fc.array(fc.nat(200)), (whole, places) => {
      const expected: EventSourceMessage[] = [];
      const parser = createParser({
        onEvent: ({ event, id, data }) => expected.push({ event, id, data }),
      });
      // A last line that is not empty shows what a carriage return at the end was.
      const ended = `${whole}x`;
      parser.feed(ended);
      const cuts = [0, ...places.filter((place) => place < ended.length).sort((a, b) => a - b), ended.length];
      const parts = cuts.slice(1).map((cut, i) => ended.slice(cuts[i], cut));
      expect(readAll(parts)).toEqual(expected);
    }),
    { numRuns: times(1000) },
  );
});

test('a frame of the daemon is one message, and a heartbeat is none', () => {
  const sent = ['event: event\nid: 3', '\ndata: {"x":"a: b"}\n\n: hb\n', '\nevent: end\ndata: {}\n\n'];
  expect(readAll(sent)).toEqual([
    { event: 'event', id: '3', data: '{"x":"a: b"}' },
    { event: 'end', id: undefined, data: '{}' },
  ]);
});
