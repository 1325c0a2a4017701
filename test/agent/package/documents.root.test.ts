// Man pages and completions describe the commands as they are, in a form that man and the shells accept.
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { documents } from '../../../agent/package/documents.ts';
import { picturePaths, shippedPages } from '../../../agent/package/pages.ts';
import { kreplay } from '../../e2e/kreplay.ts';
import { brokenLinks } from '../../structure/page_links.ts';

const folder = mkdtempSync(join(tmpdir(), 'kreplay-documents-'));
const files = new Map<string, string>();

beforeAll(async () => {
  for (const [path, text] of await documents({ version: '1.2.3', date: '2026-11-22' })) {
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

test('kreplay(1) has every command and option of the help', () => {
  const text = page('kreplay.1');
  for (const name of [
    'up',
    'agent',
    'daemon',
    'ship',
    'exec',
    'events',
    'config validate',
    'config print',
    'token create',
  ]) {
    expect(text).toContain(`kreplay ${name}`);
    const help = kreplay([...name.split(' '), '--help']).stdout;
    for (const [flag] of help.matchAll(/--[a-z-]+(?= |\n)/g)) expect(text).toContain(flag);
  }
});

test('kreplay.toml(5) has every key of `kreplay config print`', () => {
  const text = page('kreplay.toml.5');
  const printed = JSON.parse(kreplay(['config', 'print', '--output', 'json']).stdout);
  for (const section of ['agent', 'daemon', 'ship', 'fleet']) {
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
  const pages = shippedPages(project);
  for (const name of ['README.md', 'agent/docs/install.md', 'agent/recording/FORMAT.md', 'daemon/docs/ci.md'])
    expect([...pages.keys()]).toContain(name);
  const files = ['examples/alerts.yml', 'examples/grafana_dashboard.json', ...picturePaths(project)];
  expect(brokenLinks(pages, (path) => files.includes(path))).toEqual([]);
  expect([...pages.values()].filter((text) => text.includes('/path/to/'))).toEqual([]);
});

const ASKED = [
  ['kreplay ev', ['events']],
  ['kreplay config ', ['validate', 'print']],
  ['kreplay config print --out', ['--output']],
  ['kreplay config print --output ', ['text', 'json']],
  ['kreplay agent --without ht', ['http']],
  ['kreplay agent --ring-size 4 --no', ['--node']],
  ['kreplay daemon --listen 127.0.0.1:1 --sta', ['--state']],
] as const;

describe('completions', () => {
  test.each(ASKED)('bash: %s', (line, expected) => {
    const words = line.split(' ');
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the shell's.
    const script = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _kreplay; echo "${COMPREPLY[@]}"';
    const { stdout, stderr } = spawnSync('bash', ['-c', script, 'bash', files.get('kreplay')!, ...words], {
      encoding: 'utf8',
    });
    expect(stderr).toBe('');
    const offered = stdout
      .trim()
      .split(' ')
      .filter((word) => word !== '--help');
    expect(offered).toEqual(expected);
  });

  test.each(ASKED)('fish: %s', (line, expected) => {
    const script = 'source $argv[1]; complete -C $argv[2]';
    const { stdout, stderr } = spawnSync('fish', ['--no-config', '-c', script, files.get('kreplay.fish')!, line], {
      encoding: 'utf8',
      env: { ...process.env, HOME: folder },
    });
    expect(stderr).toBe('');
    const offered = stdout
      .trim()
      .split('\n')
      .map((each) => each.split('\t')[0]);
    expect(offered.toSorted()).toEqual([...expected].sort());
  });

  test.each(ASKED)('zsh: %s', (line, expected) => {
    // A shell in a terminal of its own shows what a user who types there sees.
    const script = `
      zmodload zsh/zpty
      zpty shell zsh -f -i
      zpty -w shell "PROMPT='' ; fpath=($1 \\$fpath); autoload -Uz compinit; compinit -u -d $2/dump; zstyle ':completion:*' list-prompt ''; zstyle ':completion:*' verbose no; LISTMAX=1000; unsetopt menu_complete auto_menu; setopt bash_auto_list; echo re''ady"
      zpty -r shell ready '*ready*'
      sleep 0.5
      zpty -n -w shell "$3"$'\\t\\t'
      sleep 1.5
      zpty -r -t shell output
      while zpty -r -t shell more; do output+=$more; done
      print -r -- "$output"
      zpty -d shell`;
    const { stdout, stderr } = spawnSync(
      'zsh',
      ['-f', '-c', script, 'zsh', dirname(files.get('_kreplay')!), folder, line],
      {
        encoding: 'utf8',
        timeout: 20_000,
      },
    );
    expect(stderr).toBe('');
    for (const word of expected) expect(stdout).toContain(word.replace(line.split(' ').at(-1)!, ''));
  });
});
