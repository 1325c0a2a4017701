/** Controls the terminal: switches to the alternate screen and to raw keys, and restores the terminal at the end. */
import { emitKeypressEvents } from 'node:readline';
import type { KeyPress } from './keys.ts';
import type { Size } from './screen.ts';

const ENTER = '\u001b[?1049h\u001b[?25l\u001b[?7l';
const LEAVE = '\u001b[?7h\u001b[?25h\u001b[?1049l';
const CLEAR = '\u001b[2J';

export interface Terminal {
  readonly size: Size;
  readonly hasColours: boolean;
  /** Whether the terminal was closed, so that writing to it is an error. */
  readonly isGone: boolean;
  /** Draws the lines from the top of the screen; writes only changed lines. */
  paint(lines: readonly string[]): void;
  /** Restores the terminal; may be called more than once. */
  close(): void;
}

export interface TerminalEvents {
  onKey: (key: KeyPress) => void;
  onResize: () => void;
  onGone: () => void;
}

/** Returns whether the player can read keys and draw a screen. */
export function hasScreen(): boolean {
  return Boolean(process.stdin.isTTY && process.stdout.isTTY) && process.env.TERM !== 'dumb';
}

/** Returns whether the locale uses UTF-8, by the C library's order of variables. */
export function writesUnicode(env: NodeJS.ProcessEnv): boolean {
  return /utf-?8/i.test(env.LC_ALL || env.LC_CTYPE || env.LANG || '');
}

export function openTerminal({ onKey, onResize, onGone }: TerminalEvents): Terminal {
  const { stdin, stdout } = process;
  let painted: readonly string[] = [];
  let open = true;
  let isGone = false;

  const onKeypress = (_text: string | undefined, key: KeyPress) => onKey(key);
  const resize = () => {
    painted = [];
    stdout.write(CLEAR);
    onResize();
  };
  const markGone = () => {
    isGone = true;
    onGone();
  };
  const close = () => {
    if (!open) return;
    open = false;
    process.off('exit', close).off('uncaughtExceptionMonitor', close);
    stdin.off('keypress', onKeypress);
    stdout.off('resize', resize);
    // Writes to a terminal are synchronous, so this also works while the process exits.
    stdout.write(LEAVE);
    stdin.setRawMode(false);
    stdin.pause();
  };

  // These listeners are registered first, so that the terminal is restored even if a later step fails.
  process.on('exit', close).on('uncaughtExceptionMonitor', close);
  // These listeners are never removed, because restoring a closed terminal also causes an error event.
  stdin.on('error', markGone).on('end', markGone);
  emitKeypressEvents(stdin);
  stdin.setRawMode(true);
  stdin.on('keypress', onKeypress).resume();
  stdout.on('resize', resize);
  stdout.write(ENTER + CLEAR);

  return {
    get size() {
      // A terminal may report the size 0 if its size is unknown.
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
