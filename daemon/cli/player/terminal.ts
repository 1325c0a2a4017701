/** The terminal while the player has it: a screen of its own, keys as they are pressed, and everything as before at the end. */
import { emitKeypressEvents } from 'node:readline';
import type { Key } from './keys.ts';
import type { Size } from './screen.ts';

const ENTER = '\u001b[?1049h\u001b[?25l\u001b[?7l';
const LEAVE = '\u001b[?7h\u001b[?25h\u001b[?1049l';
const CLEAR = '\u001b[2J';

export interface Terminal {
  readonly size: Size;
  readonly hasColours: boolean;
  /** Hung up: what is written to it now is an error. */
  readonly isGone: boolean;
  /** Lines from the top; only those that are not on the screen already are written. */
  paint(lines: readonly string[]): void;
  /** May be called again. */
  close(): void;
}

export interface TerminalEvents {
  onKey: (key: Key) => void;
  onResize: () => void;
  onGone: () => void;
}

/** Keys come in and a screen can be drawn. */
export function hasScreen(): boolean {
  return Boolean(process.stdin.isTTY && process.stdout.isTTY) && process.env.TERM !== 'dumb';
}

/** Whether the terminal's user writes UTF-8, by the rules of the C library. */
export function writesUnicode(env: NodeJS.ProcessEnv): boolean {
  return /utf-?8/i.test(env.LC_ALL || env.LC_CTYPE || env.LANG || '');
}

export function openTerminal({ onKey, onResize, onGone }: TerminalEvents): Terminal {
  const { stdin, stdout } = process;
  let painted: readonly string[] = [];
  let open = true;
  let isGone = false;

  const keypress = (_text: string | undefined, key: Key) => onKey(key);
  const resize = () => {
    painted = [];
    stdout.write(CLEAR);
    onResize();
  };
  const gone = () => {
    isGone = true;
    onGone();
  };
  const close = () => {
    if (!open) return;
    open = false;
    process.off('exit', close).off('uncaughtExceptionMonitor', close);
    stdin.off('keypress', keypress);
    stdout.off('resize', resize);
    // Writes to a terminal are synchronous: this is there before a process that exits is gone.
    stdout.write(LEAVE);
    stdin.setRawMode(false);
    stdin.pause();
  };

  // Before anything else, so that whatever goes wrong from here on is undone.
  process.on('exit', close).on('uncaughtExceptionMonitor', close);
  // These stay: of a terminal that has hung up, even giving it back is an error.
  stdin.on('error', gone).on('end', gone);
  emitKeypressEvents(stdin);
  stdin.setRawMode(true);
  stdin.on('keypress', keypress).resume();
  stdout.on('resize', resize);
  stdout.write(ENTER + CLEAR);

  return {
    get size() {
      // A terminal that does not know its size says 0.
      return { columns: stdout.columns || 80, rows: stdout.rows || 24 };
    },
    hasColours: stdout.hasColors(),
    get isGone() {
      return isGone;
    },
    paint(lines) {
      if (!open || stdout.writableNeedDrain) return;
      const text = lines
        .map((line, row) => (line === painted[row] ? '' : `\u001b[${row + 1};1H\u001b[K${line}`))
        .join('');
      painted = lines;
      if (text !== '') stdout.write(text);
    },
    close,
  };
}
