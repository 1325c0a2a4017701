// Tests flag, then environment, then files, then default: for any mix of them; errors name the place of the bad value.
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command } from 'commander';
import fc from 'fast-check';
import { AGENT_SECTION } from '../../../agent/command.ts';
import { readConfiguration, type Sections } from '../../../agent/config/configuration.ts';
import { listDeclared, nameVariable } from '../../../agent/config/setting.ts';
import { DAEMON_SECTION } from '../../../daemon/server/options.ts';

const folder = mkdtempSync(join(tmpdir(), 'kreplay-config-'));
const file = join(folder, 'kreplay.toml');
const dropIns = join(folder, 'kreplay.d');

afterAll(() => rmSync(folder, { recursive: true, force: true }));

const SECTIONS: Sections = new Map([
  ['agent', listDeclared(AGENT_SECTION.declare(new Command()))],
  ['daemon', listDeclared(DAEMON_SECTION.declare(new Command()))],
]);

/** Values of each setting, one for each place that can set it. */
const KINDS = {
  node: { texts: ['a', 'b"\\', 'c\u007f', 'd # e', 'f'], toml: JSON.stringify },
  'ring-size': { texts: ['1', '2', '4', '8', '32'], toml: (text: string) => text },
  'trust-services': { texts: ['true', 'false', 'true', 'false', 'true'], toml: (text: string) => text },
  service: { texts: ['a', 'b,c', 'd', 'e,f,g', 'h'], toml: (text: string) => JSON.stringify(text.split(',')) },
  'log-level': { texts: ['trace', 'debug', 'warn', 'error', 'info'], toml: JSON.stringify },
} as const;

type Key = keyof typeof KINDS;

const PLACES = ['shared', 'file', 'drop_in', 'variable', 'flag'] as const;

const mixes = fc.record({
  key: fc.constantFrom(...(Object.keys(KINDS) as Key[])),
  said: fc.record(Object.fromEntries(PLACES.map((place) => [place, fc.option(fc.nat(4), { nil: undefined })]))),
});

function tomlOf(key: Key, section: string, choice: number | undefined): string {
  if (choice === undefined) return '';
  const { texts, toml } = KINDS[key];
  return `${section}${key} = ${toml(texts[choice]!).replaceAll('\x7f', '\\u007f')}\n`;
}

function write(text: string, dropIn?: string): void {
  writeFileSync(file, text);
  rmSync(dropIns, { recursive: true, force: true });
  if (dropIn === undefined) return;
  mkdirSync(dropIns);
  writeFileSync(join(dropIns, '50-more.toml'), dropIn);
}

function read(environment: NodeJS.ProcessEnv = {}, flags = new Map<string, unknown>()) {
  return readConfiguration(SECTIONS, { file, flags, environment }).sections;
}

test('the source with the highest precedence counts, whatever the others contain', () => {
  fc.assert(
    fc.property(mixes, ({ key, said }) => {
      const { setting } = SECTIONS.get('agent')!.find((each) => each.setting.key === key)!;
      const shared = setting.isShared ? said.shared : undefined;
      const { texts } = KINDS[key];
      write(tomlOf(key, '', shared) + tomlOf(key, 'agent.', said.file), tomlOf(key, 'agent.', said.drop_in));
      const environment =
        said.variable === undefined ? {} : { [nameVariable(setting, 'agent')]: texts[said.variable]! };
      const flags = new Map(said.flag === undefined ? [] : [[setting.attributeName(), 'of the flag']]);
      const found = read(environment, flags)
        .get('agent')!
        .find(({ declared }) => declared.setting === setting)!;
      const places = [
        ['flag', said.flag],
        ['environment', said.variable],
        ['file', said.drop_in],
        ['file', said.file],
        ['file', shared],
      ] as const;
      const [from, choice] = places.find(([, each]) => each !== undefined) ?? ['default', undefined];
      expect(found.origin.from).toBe(from);
      if (from === 'flag') expect(found.value).toBe('of the flag');
      else if (choice === undefined) expect(found.value).toEqual(setting.defaultValue);
      else expect(String(found.raw)).toBe(texts[choice]);
    }),
    { numRuns: 300 },
  );
});

test('a shared key applies to both sections, and the key of a section only to that section', () => {
  write('log-level = "warn"\n[daemon]\nlog-level = "debug"\n');
  const levels = () =>
    [...read({ KREPLAY_AGENT_LOG_LEVEL: '' })].map(
      ([, settings]) => settings.find(({ declared }) => declared.setting.key === 'log-level')!.value,
    );
  expect(levels()).toEqual(['warn', 'debug']);
});

test('a variable that is a misspelt setting is refused, and other names are ignored', () => {
  write('');
  const problemsOf = (name: string) => {
    try {
      read({ [name]: '8' });
      return '';
    } catch (error) {
      return (error as Error).message;
    }
  };
  for (const [name, meant] of [
    ['KREPLAY_AGENT_RING_SIZ', 'KREPLAY_AGENT_RING_SIZE'],
    ['KREPLAY_AGENT_NODDE', 'KREPLAY_AGENT_NODE'],
    ['KREPLAY_AGNET_NODE', 'KREPLAY_AGENT_NODE'],
    ['KREPLAY_LOGLEVEL', 'KREPLAY_LOG_LEVEL'],
  ])
    expect(problemsOf(name!)).toBe(`${name}: there is no such variable; did you mean ${meant}?`);
  const ours = ['TOKEN', 'CONFIG', 'CA', 'CLIENT_CERT', 'CLIENT_KEY'];
  const ofKubernetes = ['SERVICE_HOST', 'SERVICE_PORT', 'PORT', 'PORT_7467_TCP', 'PORT_7467_TCP_ADDR'];
  const services = ['', 'AGENT_', 'DAEMON_'].flatMap((service) => ofKubernetes.map((name) => `${service}${name}`));
  for (const name of [...ours, ...services]) expect([name, problemsOf(`KREPLAY_${name}`)]).toEqual([name, '']);
});

test('drop-ins are read in the order of their names, and only files that end in .toml', () => {
  write('[agent]\nnode = "first"\n', '[agent]\nnode = "second"\n');
  writeFileSync(join(dropIns, '60-later.toml'), 'agent.node = "third"');
  writeFileSync(join(dropIns, '70-saved.toml.bak'), 'agent.node = "none"');
  const { paths } = readConfiguration(SECTIONS, { file, flags: new Map(), environment: {} });
  expect(paths).toEqual([file, join(dropIns, '50-more.toml'), join(dropIns, '60-later.toml')]);
  expect(
    read()
      .get('agent')!
      .find(({ declared }) => declared.setting.key === 'node')!.value,
  ).toBe('third');
});

test.each([
  ['log-levl = "debug"', ':1:1: there is no log-levl; did you mean log-level?'],
  ['[agnet]\nnode = "a"', ':1:2: there is no agnet; did you mean agent?'],
  ['[agent]\n\n  ring_size = 8', ':3:3: there is no ring_size in [agent]; did you mean ring-size?'],
  ['[daemon]\nzzz = 8', ':2:1: there is no zzz in [daemon]; `kreplay config print` lists what there is'],
  ['listen = "127.0.0.1:1"', ':1:1: listen is a key of a section: write it below [daemon]'],
  ['agent = 3', ':1:1: agent is a section: write [agent] above its keys'],
  ['[[agent]]\nnode = "a"', ':1:3: there is no 0 in [agent]; `kreplay config print` lists what there is'],
  ['[agent]\nnode = 8', ':2:8: node must be a text in quotes'],
  ['[agent]\nring-size = "8"', ':2:13: ring-size must be a whole number'],
  ['[agent]\nring-size = 9', ':2:13: ring-size: It must be a power of two from 1 to 2048.'],
  ['[agent]\nring-size = 1979-05-27', ':2:13: ring-size must be a whole number'],
  ['[agent]\npid = ["1"]', ':2:7: pid must be a list of whole numbers, such as [1, 2]'],
  ['[agent]\nservice = "a"', ':2:11: service must be a list of texts, such as ["a", "b"]'],
  ['[agent]\nservice = [["a"]]', ':2:11: service must be a list of texts, such as ["a", "b"]'],
  ['[agent]\nservice = { a = 1 }', ':2:1: service must be a list of texts, such as ["a", "b"]'],
  ['[agent]\nwithout = ["magic"]', ':2:11: without: Allowed choices are'],
  ['[agent]\nonly-labelled = "yes"', ':2:17: only-labelled must be true or false'],
  ['[daemon]\nstate = true', ':2:9: state must be a text in quotes, or false'],
  ['[daemon]\ncors-origin = ["https://a.example/x"]', ':2:15: cors-origin: must be as browsers send it'],
  ['[daemon]\ntrusted-proxy = ["10.0.0.0/33"]', ':2:17: trusted-proxy: must be an IP address'],
  ['a = 1\na = 2', ':2:1: this is not TOML: '],
  ['[agent', ':1:7: this is not TOML: '],
])('%j is refused: %s', (text, message) => {
  write(text);
  expect(() => read()).toThrow(`${file}${message}`);
});

test('all errors are reported together, each once', () => {
  write('data = 1\nlog-level = "loud"\n[agent]\nring-size = 3\n[daemon]\nmax-scans = 0\n');
  const complaint = messageOf(() => read());
  expect(complaint.split('\n').map((line) => line.slice(file.length).split(': ')[0])).toEqual([
    ':1:8',
    ':2:13',
    ':4:13',
    ':6:13',
  ]);
});

describe('variables', () => {
  test.each([
    ['KREPLAY_AGENT_PID', '1,2', 'pid', ['1', '2']],
    ['KREPLAY_AGENT_SERVICE', '["a,b", "c"]', 'service', ['a,b', 'c']],
    ['KREPLAY_AGENT_ONLY_LABELLED', '1', 'only-labelled', true],
    ['KREPLAY_AGENT_TRUST_SERVICES', 'false', 'trust-services', false],
    ['KREPLAY_DATA', '/srv', 'data', '/srv'],
    ['KREPLAY_AGENT_DATA', '', 'data', './data'],
  ])('%s=%s', (name, text, key, value) => {
    write('');
    const found = read({ [name]: text })
      .get('agent')!
      .find(({ declared }) => declared.setting.key === key)!;
    expect(found.value).toEqual(value);
  });

  test.each([
    ['KREPLAY_AGENT_RING_SIZE', '3', 'It must be a power of two'],
    ['KREPLAY_AGENT_ONLY_LABELLED', 'yes', 'give true or false'],
    ['KREPLAY_AGENT_SERVICE', '["a"', 'not a list in JSON'],
    ['KREPLAY_DAEMON_LISTEN', 'here', 'must be HOST:PORT'],
  ])('%s=%s is refused: %s', (name, text, message) => {
    write('');
    expect(messageOf(() => read({ [name]: text }))).toContain(`${name}: `);
    expect(messageOf(() => read({ [name]: text }))).toContain(message);
  });
});

function messageOf(work: () => unknown): string {
  try {
    work();
  } catch (error) {
    return (error as Error).message;
  }
  throw new Error('nothing was wrong with it');
}
