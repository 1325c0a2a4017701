/** Tests pictures of terminals, read back by a parser of Python's: each character is there, in its column and style. */
import { execFileSync } from 'node:child_process';
import fc from 'fast-check';
import { drawScreen } from '../../../daemon/package/screen_svg.ts';
import { times } from '../../repeats.ts';

const CELL_WIDTH_PX = 8.4;
const MARGIN_PX = 12;
const PARSER = `
import json, sys, xml.etree.ElementTree as t
svg = '{http://www.w3.org/2000/svg}'
rows = lambda text: t.fromstring(text).iter(svg + 'text')
spans = lambda row: [dict(e.attrib, text=e.text) for e in row.iter(svg + 'tspan')]
json.dump([[spans(row) for row in rows(text)] for text in json.load(sys.stdin)], sys.stdout)`;

interface Drawn {
  text: string;
  x: string;
  fill: string;
  'font-weight'?: string;
  'fill-opacity'?: string;
}

function parsed(svgs: readonly string[]): Drawn[][][] {
  return JSON.parse(execFileSync('python3', ['-c', PARSER], { input: JSON.stringify(svgs), encoding: 'utf8' }));
}

test('styles last until they change, also from line to line', () => {
  const svg = drawScreen('a\x1b[1mb\x1b[0;2mc\x1b[22;31md\n<e>\x1b[39m&', 80, 'a screen');
  const [first, second] = parsed([svg])[0] as [Drawn[], Drawn[]];
  const [plain, bold, dim, red] = first as [Drawn, Drawn, Drawn, Drawn];
  expect(first.map(({ text }) => text)).toEqual(['a', 'b', 'c', 'd']);
  expect([bold['font-weight'], dim['font-weight'], dim['fill-opacity'], red['fill-opacity']]).toEqual([
    ...['bold', undefined],
    ...['0.6', undefined],
  ]);
  expect(second.map(({ text, fill }) => [text, fill])).toEqual([
    ['<e>', red.fill],
    ['&', plain.fill],
  ]);
  expect(red.fill).not.toBe(plain.fill);
});

test('any text is there in its column', () => {
  const part = fc.tuple(
    fc.constantFrom(0, 1, 2, 22, 31, 36, 39),
    fc.string({ unit: fc.constantFrom(...' ab<&>"│█░▼äé') }),
  );
  const line = fc.array(part, { maxLength: 5 });
  const lines = fc.array(line, { minLength: 1, maxLength: 6 });
  // To start a parser takes longer than to parse.
  const property = fc.property(fc.array(lines, { minLength: 10, maxLength: 10 }), (screens) => {
    const svgs = screens.map((each) => {
      const screen = each.map((parts) => parts.map(([code, text]) => `\x1b[${code}m${text}`).join('')).join('\n');
      return drawScreen(`${screen}.`, 80, 'a screen');
    });
    for (const [i, rows] of parsed(svgs).entries()) {
      const texts = screens[i]!.map((parts) => parts.map(([, text]) => text).join(''));
      expect(rows.map((row) => row.map(({ text }) => text).join(''))).toEqual([
        ...texts.slice(0, -1),
        `${texts.at(-1)}.`,
      ]);
      for (const row of rows) expectInColumns(row);
    }
  });
  fc.assert(property, { numRuns: times(5) });
});

function expectInColumns(row: readonly Drawn[]): void {
  let column = 0;
  for (const { text, x } of row) {
    expect(Number(x)).toBeCloseTo(MARGIN_PX + column * CELL_WIDTH_PX, 1);
    column += [...text].length;
  }
}
