/** Tests that help, errors, logs, alerts and the README name only options that exist, each on a command that has it. */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Command } from 'commander';
import { createWholeProgram } from '../../../daemon/cli/program.ts';

const ROOT = join(import.meta.dirname, '../../..');
const TEXTS = ['{agent,daemon,bpf/schema}/**/*.{ts,yml}', '{README,CHANGELOG}.md', '{agent,bpf,daemon,test}/**/*.md'];
/** Files that mention options of other programs, which they start, read or build. */
const ABOUT_OTHERS =
  /^agent\/attribution\/service_name\/|^daemon\/(package\/|server\/examples\/|cli\/up\.ts|run\/execution\/runner_process\.ts|run\/job\/|thread_schedule\.ts)/;
/** Options of curl, docker, gpg, sha256sum, useradd, setpriv, systemctl and unshare. */
const OF_OTHERS =
  '--json --max-time --retry --cap-add --volume --check --quiet --time --expose-gc --system --reuid --regid --clear-groups --inh-caps --ambient-caps --bounding-set --dearmor --keyring --show-keys --groups --shell --now'.split(
    ' ',
  );
const OPTION = /(?<![\w-])--[a-z][a-z-]*[a-z](?![\w-])/g;

function optionsOf(command: Command): string[] {
  const own = command.options.flatMap(({ long }) => (long ? [long, long.replace('--no-', '--')] : []));
  return ['--help', ...own, ...command.commands.flatMap(optionsOf)];
}

interface Line {
  place: string;
  text: string;
}

let program: Command;
let lines: Line[];
beforeAll(async () => {
  program = await createWholeProgram();
  lines = linesOfTexts();
});

/** Lines of the texts that name options, without comments, whose options are not advice to users. */
function linesOfTexts(): Line[] {
  const files = TEXTS.flatMap((pattern) => globSync(pattern, { cwd: ROOT })).filter((file) => !ABOUT_OTHERS.test(file));
  return files.flatMap((file) =>
    readFileSync(join(ROOT, file), 'utf8')
      .split('\n')
      .map((text, i) => ({ place: `${file}:${i + 1}`, text }))
      .filter(({ text }) => text.includes('--') && !/^\s*(\*|\/)/.test(text)),
  );
}

test('every option in an advice text exists', () => {
  const known = new Set([...optionsOf(program), '--version', ...OF_OTHERS]);
  const named = lines.flatMap(({ place, text }) => [...text.matchAll(OPTION)].map(([name]) => ({ place, name })));
  expect(named.length).toBeGreaterThan(300);
  expect(named.filter(({ name }) => !known.has(name))).toEqual([]);
});

test('every command in an advice text has the option given with it', () => {
  const written = lines.flatMap(({ place, text }) =>
    program.commands.flatMap((command) => {
      const calls = text.matchAll(new RegExp(`kreplay ${command.name()}((?: [^\`'"|;]*)?) (--[a-z][a-z-]*[a-z])`, 'g'));
      // The words after `--` are another command.
      return [...calls]
        .filter(([, between]) => !between!.includes(' -- '))
        .map(([, , name]) => ({ place, command, name: name! }));
    }),
  );
  expect(written.length).toBeGreaterThan(20);
  const wrong = written.filter(({ command, name }) => !optionsOf(command).includes(name));
  expect(wrong.map(({ place, command, name }) => `${place} ${command.name()} ${name}`)).toEqual([]);
});
