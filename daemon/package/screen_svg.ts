/** Draws a terminal's screen as SVG, from the text and style codes that `tmux capture-pane -e` prints. */
import stringWidth from 'string-width';

const FONT_PX = 14;
const CELL_WIDTH_PX = 8.4;
const LINE_HEIGHT_PX = 18;
const MARGIN_PX = 12;
const BACKGROUND = '#16181d';
const TEXT = '#d8dbe2';
// biome-ignore lint/suspicious/noControlCharactersInRegex: styles begin with an escape character.
const STYLE_CHANGE = /\x1b\[([0-9;]*)m/;
/** The colours of the SGR codes 30 to 37 (ECMA-48, 8.3.117). */
const COLOURS = ['#5c6370', '#e06c75', '#98c379', '#e5c07b', '#61afef', '#c678dd', '#56b6c2', TEXT];
const SGR_RESET = 0;
const SGR_BOLD = 1;
const SGR_DIM = 2;
const SGR_NORMAL = 22;
const SGR_COLOUR = 30;
const SGR_DEFAULT_COLOUR = 39;

interface CellStyle {
  isBold: boolean;
  isDim: boolean;
  colour: string;
}

interface CellSpan extends CellStyle {
  text: string;
}

const PLAIN: CellStyle = { isBold: false, isDim: false, colour: TEXT };

function styleAfter(style: CellStyle, code: number): CellStyle {
  if (code === SGR_RESET) return PLAIN;
  if (code === SGR_BOLD) return { ...style, isBold: true };
  if (code === SGR_DIM) return { ...style, isDim: true };
  if (code === SGR_NORMAL) return { ...style, isBold: false, isDim: false };
  if (code === SGR_DEFAULT_COLOUR) return { ...style, colour: TEXT };
  const colour = COLOURS[code - SGR_COLOUR];
  return colour === undefined ? style : { ...style, colour };
}

/** Parses the screen into one list of spans per line. A style applies until the next style code, even across lines. */
function parseSpans(screen: string): CellSpan[][] {
  let style = PLAIN;
  return screen.split('\n').map((line) =>
    // `split` returns texts and style codes alternately. A style code applies to the texts after it.
    line.split(STYLE_CHANGE).flatMap((part, i) => {
      if (i % 2 === 0) return part === '' ? [] : [{ ...style, text: part }];
      for (const code of part.split(';')) style = styleAfter(style, Number(code));
      return [];
    }),
  );
}

const escapeXml = (text: string) => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');

/** Each span is positioned separately, so that the columns stay aligned with any font. */
function drawSpans(spans: readonly CellSpan[], row: number): string {
  let column = 0;
  const parts = spans.map(({ text, isBold, isDim, colour }) => {
    const x = (MARGIN_PX + column * CELL_WIDTH_PX).toFixed(1);
    const columns = stringWidth(text);
    column += columns;
    const weight = isBold ? ' font-weight="bold"' : '';
    const opacity = isDim ? ' fill-opacity="0.6"' : '';
    const length = `textLength="${(columns * CELL_WIDTH_PX).toFixed(1)}" lengthAdjust="spacingAndGlyphs"`;
    return `<tspan x="${x}" ${length} fill="${colour}"${weight}${opacity}>${escapeXml(text)}</tspan>`;
  });
  return `<text xml:space="preserve" y="${MARGIN_PX + FONT_PX + row * LINE_HEIGHT_PX}">${parts.join('')}</text>`;
}

/** Draws the screen as SVG. `title` describes the picture for screen readers. */
export function drawScreen(screen: string, columns: number, title: string): string {
  const lines = parseSpans(screen.trimEnd());
  const width = Math.ceil(columns * CELL_WIDTH_PX) + 2 * MARGIN_PX;
  const height = lines.length * LINE_HEIGHT_PX + 2 * MARGIN_PX;
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img">
<title>${escapeXml(title)}</title>
<rect width="100%" height="100%" rx="6" fill="${BACKGROUND}"/>
<g font-family="ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace" font-size="${FONT_PX}" style="white-space: pre">
${lines.map(drawSpans).join('\n')}
</g>
</svg>
`;
}
