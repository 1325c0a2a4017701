// Man pages and completions describe the commands as they are, in a form that man and the shells accept.
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import type { Command } from 'commander';
import { createWholeProgram } from '../../../daemon/cli/program.ts';
import { buildDocuments } from '../../../daemon/package/documents.ts';
import { listPicturePaths, readShippedPages } from '../../../daemon/package/pages.ts';
import { kreplay } from '../../e2e/kreplay.ts';
import { brokenLinks } from '../../structure/page_links.ts';

const folder = mkdtempSync(join(tmpdir(), 'kreplay-documents-'));
const files = new Map<string, string>();

beforeAll(async () => {
  for (const [path, text] of await buildDocuments({ version: '1.2.3', date: '2026-11-22' })) {
    const file = join(folder, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
    files.set(basename(path), file);
  }
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The page as a reader sees it, on one line. */
function page(name: string): string {
  const text = execFileSync('mandoc', ['-T', 'utf8', '-O', 'width=1000', files.get(name)!], { encoding: 'utf8' });
  // biome-ignore lint/suspicious/noControlCharactersInRegex: bold and underlined are written over.
  return text.replaceAll(/.\x08/g, '').replaceAll(/\s+/g, ' ');
}

test.each(['kreplay.1', 'kreplay.toml.5'])('mandoc reports nothing about %s', (name) => {
  const { stdout, stderr } = spawnSync('mandoc', ['-T', 'lint', '-W', 'warning', files.get(name)!], {
    encoding: 'utf8',
  });
  expect(stdout + stderr).toBe('');
});

function helpOf(program: Command, words: readonly string[]): string {
  const command = words.reduce((within, word) => within.commands.find((each) => each.name() === word)!, program);
  return command.helpInformation();
}

test('kreplay(1) has every command and option of the help', async () => {
  const program = await createWholeProgram();
  const text = page('kreplay.1');
  for (const name of [
    'up',
    'agent',
    'daemon',
    'ship',
    'watch',
    'exec',
    'events',
    'config validate',
    'config print',
    'token create',
  ]) {
    expect(text).toContain(`kreplay ${name}`);
    const words = name.split(' ');
    const help = name === 'up' ? kreplay([...words, '--help']).stdout : helpOf(program, words);
    expect(help).toContain(`Usage: kreplay ${name} `);
    for (const [flag] of help.matchAll(/--[a-z-]+(?= |\n)/g)) expect(text).toContain(flag);
  }
});

test('kreplay.toml(5) has every key of `kreplay config print`', () => {
  const text = page('kreplay.toml.5');
  const printed = JSON.parse(kreplay(['config', 'print', '--output', 'json']).stdout);
  for (const section of ['agent', 'daemon', 'ship', 'fleet', 'watch']) {
    for (const key of Object.keys(printed[section])) {
      expect(text).toContain(` ${key} `);
      expect(text).toContain(`KREPLAY_${section.toUpperCase()}_${key.replaceAll('-', '_').toUpperCase()}`);
    }
  }
  expect(text).toContain('comm Record only these command names. It is a list of texts, such as ["a", "b"]. Reloaded.');
  expect(text).toContain('Default: 127.0.0.1:7467.');
});

test('the package has every page, and each of their links leads to a file of the package', () => {
  const project = join(import.meta.dirname, '../../..');
  const pages = readShippedPages(project);
  for (const name of ['README.md', 'agent/docs/install.md', 'agent/recording/FORMAT.md', 'daemon/docs/ci.md'])
    expect([...pages.keys()]).toContain(name);
  const files = [
    'examples/action.yml',
    'examples/alerts.yml',
    'examples/grafana_dashboard.json',
    ...listPicturePaths(project),
  ];
  expect(brokenLinks(pages, (path) => files.includes(path))).toEqual([]);
  expect([...pages.values()].filter((text) => text.includes('/path/to/'))).toEqual([]);
});

const ASKED = [
  ['kreplay ev', ['events']],
  ['kreplay config ', ['validate', 'print']],
  ['kreplay ci ', ['init']],
  ['kreplay run --require ', ['replayed', 'partial', 'none']],
  ['kreplay config print --out', ['--output']],
  ['kreplay config print --output ', ['text', 'json']],
  ['kreplay agent --without ht', ['http']],
  ['kreplay agent --ring-size 4 --no', ['--node']],
  ['kreplay daemon --listen 127.0.0.1:1 --sta', ['--state']],
] as const;

/** One shell answers all lines: to start one, and to read its completions, takes longest. */
function asked(shell: string, script: string, file: string): string[] {
  const args = { bash: ['--norc', '-c'], fish: ['--no-config', '-c'], zsh: ['-f', '-c'] }[shell]!;
  const words = [
    ...args,
    script,
    ...(shell === 'fish' ? [] : [shell]),
    files.get(file)!,
    ...ASKED.map(([line]) => line),
  ];
  const { status, stdout, stderr } = spawnSync(shell, words, {
    encoding: 'utf8',
    env: { ...process.env, HOME: folder },
    timeout: 60_000,
  });
  expect([status, stderr]).toEqual([0, '']);
  return stdout.split('<end>\n').slice(0, -1);
}

describe('completions', () => {
  test('bash', () => {
    const script = `source "$1"; shift
      for line; do
        COMP_WORDS=() rest="$line "
        while [ -n "$rest" ]; do COMP_WORDS+=("\${rest%% *}"); rest=\${rest#* }; done
        COMP_CWORD=$((\${#COMP_WORDS[@]} - 1)) COMPREPLY=()
        _kreplay
        printf '%s\n' "\${COMPREPLY[@]}" '<end>'
      done`;
    const offered = asked('bash', script, 'kreplay').map((text) =>
      text.split('\n').filter((word) => word !== '' && word !== '--help'),
    );
    expect(offered).toEqual(ASKED.map(([, expected]) => expected));
  });

  test('fish', () => {
    const script = 'source $argv[1]; for line in $argv[2..]; complete -C $line; echo "<end>"; end';
    const offered = asked('fish', script, 'kreplay.fish').map((text) =>
      text
        .trim()
        .split('\n')
        .map((each) => each.split('\t')[0])
        .toSorted(),
    );
    expect(offered).toEqual(ASKED.map(([, expected]) => [...expected].sort()));
  });

  test('zsh', () => {
    // A shell in a terminal of its own shows what a user who types there sees. Ctrl-U (\x15) removes the line again.
    const script = `
      zmodload zsh/zpty
      zpty shell zsh -f -i
      zpty -w shell "PROMPT='%% '; fpath=(\${1:h} \\$fpath); autoload -Uz compinit; compinit -u -d $HOME/dump; zstyle ':completion:*' list-prompt ''; zstyle ':completion:*' verbose no; LISTMAX=1000; unsetopt menu_complete auto_menu; setopt bash_auto_list; echo re''ady"
      zpty -r shell output '*ready*% *'
      shift
      for line; do
        zpty -n -w shell "$line"$'\\t\\t\\x15'
        zpty -w shell "echo do''ne"
        zpty -r shell output '*done*% *'
        print -r -- "$output<end>"
      done
      zpty -d shell`;
    const shown = asked('zsh', script, '_kreplay');
    expect(shown).toHaveLength(ASKED.length);
    for (const [i, [line, expected]] of ASKED.entries())
      for (const word of expected) expect(shown[i]).toContain(word.replace(line.split(' ').at(-1)!, ''));
  });
});
