/** The words of comments and of the names of tests: sentences and noun phrases in standard terms. */
import { CODE, type Node, parse, read, type Source, sourceOf, TYPESCRIPT } from './source_tree.ts';

/** A comment that opens with one of these has no subject, or hides it. */
const BARE_OPENING = /^(Of|By|That|Whose|Behind|Told|Those|Who|Whoever)\b/;
const FORBIDDEN_IN_COMMENTS = /\b(can not|anew|whoever|whosoever)\b/i;
const FORBIDDEN_IN_TEST_NAMES = /\b(told|tells|anew|nobody|somebody|whoever|can not)\b/i;

interface Comment {
  line: number;
  text: string;
}

/** Comments that have a line for themselves, each as one text. */
function commentsIn(source: string): Comment[] {
  const found: Comment[] = [];
  let [isInside, isLast] = [false, false];
  for (const [i, line] of source.split('\n').entries()) {
    const [, mark = '', text = ''] = (!isInside && /^\s*(\/\*\*?|\/\/+)\s?(.*)$/.exec(line)) || [];
    const goesOn = isInside || (mark.startsWith('//') && isLast);
    if (goesOn) found.at(-1)!.text += ` ${isInside ? line.replace(/^\s*\*? ?/, '') : text}`;
    else if (mark !== '') found.push({ line: i + 1, text });
    isLast = mark.startsWith('//');
    isInside = (isInside || mark.startsWith('/*')) && !line.includes('*/');
  }
  return found.map((comment) => ({ ...comment, text: comment.text.replace(/\*\/.*$/, '').trim() }));
}

const SOURCES = CODE.filter((file) => !file.includes('/gen/'));

function wrongIn(isWrong: (text: string) => boolean): string[] {
  return SOURCES.flatMap((file) =>
    commentsIn(read(file))
      .filter(({ text }) => isWrong(text))
      .map(({ line, text }) => `${file}:${line}: ${text.slice(0, 80)}`),
  );
}

test('no comment opens with a bare preposition or pronoun', () => {
  expect(wrongIn((text) => BARE_OPENING.test(text))).toEqual([]);
});

test('no comment uses a word that has a standard one', () => {
  expect(wrongIn((text) => FORBIDDEN_IN_COMMENTS.test(text))).toEqual([]);
});

test('no name of a test uses a word that has a standard one', () => {
  const wrong = TYPESCRIPT.filter((file) => file.endsWith('.test.ts')).flatMap((file) =>
    namesIn(sourceOf(file))
      .filter(({ text }) => FORBIDDEN_IN_TEST_NAMES.test(text))
      .map(({ line, text }) => `${file}:${line}: ${text}`),
  );
  expect(wrong).toEqual([]);
});

/** A name is a text before a function in any call, because `test` and `describe` have modifiers, tables and aliases. */
function namesIn({ nodes, lineOf }: Source): { line: number; text: string }[] {
  return nodes.flatMap((node) => {
    if (node.type !== 'CallExpression') return [];
    const [name, body] = (node.arguments as { expression: Node }[]).map(({ expression }) => expression);
    const text = body && /^(Arrow)?FunctionExpression$/.test(body.type) ? textOf(name!) : undefined;
    return text ? [{ line: lineOf(name!.span.start), text }] : [];
  });
}

function textOf(node: Node): string | undefined {
  if (node.type === 'StringLiteral') return String(node.value);
  if (node.type !== 'TemplateLiteral') return undefined;
  return (node.quasis as { raw: string }[]).map(({ raw }) => raw).join('…');
}

test('names of tests are found in calls with modifiers, tables and aliases, and other texts are not names', () => {
  const source = [
    "describe.each([['row', 1]])('one %s', (_, n) => {",
    "  test.concurrent('two', async () => join('no', n));",
    `  whereGo(\`three \${n} times\`, function () {});`,
    "  testOf(n)('four', () => {}, 5);",
    '});',
  ];
  const expected = ['1: one %s', '2: two', '3: three … times', '4: four'];
  expect(namesIn(parse(source.join('\n'))).map(({ line, text }) => `${line}: ${text}`)).toEqual(expected);
});

test('comments are found in lines and in blocks, and code is not a comment', () => {
  const source = ['/** Of one', ' * and more. */', "const a = '// no';", '// By two', '// lines', 'b(); // Whose'];
  expect(commentsIn(source.join('\n')).map(({ text }) => text)).toEqual(['Of one and more.', 'By two lines']);
});
