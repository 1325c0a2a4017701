/** Runs a shell in a tmux server of its own: a real terminal with a readable screen and keys to press. */
import { execFile } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';

const run = promisify(execFile);
const POLL_MS = 50;
/** After that many polls the wait fails, and the error shows the screen. */
const POLLS_MAX = 700;

export interface Pane {
  /** Keys have tmux's names: `Space`, `Right`, `C-c`. */
  press(...keys: string[]): Promise<void>;
  /** Types a line for the shell. */
  type(line: string): Promise<void>;
  /** Text of the screen; with `styled` also its attributes. */
  screen(styled?: boolean): Promise<string>;
  /** Waits until the screen matches. */
  shows(pattern: RegExp): Promise<string>;
  resize(columns: number, rows: number): Promise<void>;
  /** Value of a tmux variable such as `alternate_on`. */
  value(name: string): Promise<string>;
  /** Hangs up. */
  close(): Promise<void>;
}

export async function openPane(environment: Record<string, string> = {}): Promise<Pane> {
  const socket = `kreplay-${randomUUID()}`;
  const tmux = async (...args: string[]) => {
    const env = { PATH: process.env.PATH, HOME: '/nonexistent', LANG: 'C.UTF-8', TERM: 'xterm-256color' };
    const { stdout } = await run('tmux', ['-u', '-f', '/dev/null', '-L', socket, ...args], { env });
    return stdout;
  };
  const variables = Object.entries(environment).flatMap(([name, value]) => ['-e', `${name}=${value}`]);
  await tmux('new-session', '-d', '-x', '100', '-y', '24', ...variables, 'bash --norc --noprofile');
  const screen = (styled = false) => tmux('capture-pane', '-p', ...(styled ? ['-e'] : []));
  return {
    screen,
    async press(...keys) {
      await tmux('send-keys', ...keys);
    },
    async type(line) {
      await tmux('send-keys', '-l', line);
      await tmux('send-keys', 'Enter');
    },
    async shows(pattern) {
      let text = '';
      for (let polls = 0; polls < POLLS_MAX; polls++) {
        text = await screen();
        if (pattern.test(text)) return text;
        await delay(POLL_MS);
      }
      throw new Error(`the screen never showed ${pattern}, but\n${text}`);
    },
    async resize(columns, rows) {
      await tmux('resize-window', '-x', `${columns}`, '-y', `${rows}`);
    },
    value: async (name) => (await tmux('display-message', '-p', `#{${name}}`)).trim(),
    async close() {
      await tmux('kill-server').catch(() => {});
    },
  };
}
