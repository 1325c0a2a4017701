/** Tests that on a terminal the command is in the foreground, as it would be without the helper in front of it. */
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { planOf } from './plans.ts';
import { newFolder, RUNNER, removeFolder } from './run.ts';

let folder = '';
let command: string[] = [];
beforeAll(() => {
  folder = newFolder();
  const plan = join(folder, 'plan');
  writeFileSync(plan, planOf([{ path: '/nowhere', calls: [{ targetNs: 1 }] }]));
  command = [RUNNER, '--plan', plan, '--', 'cat'];
});
afterAll(() => removeFolder(folder));

/** Returns what the screen shows when these are typed one after the other. */
function screen(...typed: string[]): string {
  const words = [join(import.meta.dirname, 'terminal.py'), typed.join('|'), ...command];
  return execFileSync('python3', words, { encoding: 'utf8' });
}

test('the command reads typed input, and Ctrl-C ends it', () => {
  const shown = screen('typed\\n', '\\x03');
  expect(shown).toMatch(/typed\r\ntyped\r\n/);
  expect(shown).toContain('code 130');
});

test('Ctrl-Z stops the command, and fg resumes it', () => {
  const shown = screen('\\x1a', 'fg\\n', 'typed\\n', '\\x04');
  expect(shown).toContain('Stopped');
  expect(shown).toMatch(/typed\r\ntyped\r\n/);
});
