/** The words of comments: each comment is a sentence with a subject, in standard terms. */
import { CODE, read } from './source_tree.ts';

/** A comment that opens with one of these has no subject, or hides it. */
const BARE_OPENING = /^(Of|By|That|Whose|Behind|Told|Those|Who|Whoever)\b/;
const ODD_WORDS = /\b(can not|anew|whoever|whosoever)\b/i;

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
  expect(wrongIn((text) => ODD_WORDS.test(text))).toEqual([]);
});

test('comments are found in lines and in blocks, and code is not a comment', () => {
  const source = ['/** Of one', ' * and more. */', "const a = '// no';", '// By two', '// lines', 'b(); // Whose'];
  expect(commentsIn(source.join('\n')).map(({ text }) => text)).toEqual(['Of one and more.', 'By two lines']);
});
