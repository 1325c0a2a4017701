/**
 * Tests settings that commands take from the configuration and the environment if no flag is given: data folder, daemon
 * URL.
 */
import { readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createWholeProgram } from '../../../daemon/cli/program.ts';
import { startWith } from '../../daemon/command_line.ts';
import { newFolder, type Row, recorded, recordingPath, START } from '../../daemon/recorded.ts';
import { type Served, serve } from '../../daemon/served.ts';

const ROWS: Row[] = [{ at: START, transaction: 'order-1' }, { at: START + 5n }];
const COUNT = ['sql', '--format', 'csv', 'select count(*) as n from events'];

let served: Served;
let data: string;
beforeAll(async () => {
  data = recorded(ROWS);
  served = await serve(data);
});
afterAll(() => served.close());

function configured(toml: string): string {
  const file = join(newFolder(), 'kreplay.toml');
  writeFileSync(file, toml);
  return file;
}

const NONE = { KREPLAY_CONFIG: configured('') };

describe('the folder of commands that read files', () => {
  test.each([
    ['the shared key of the configuration', () => ({ KREPLAY_CONFIG: configured(`data = "${data}"`) }), []],
    ['the key of the agent', () => ({ KREPLAY_CONFIG: configured(`[agent]\ndata = "${data}"\nring-size = 16`) }), []],
    ['KREPLAY_DATA', () => ({ ...NONE, KREPLAY_DATA: data }), []],
    ['KREPLAY_AGENT_DATA', () => ({ ...NONE, KREPLAY_AGENT_DATA: data, KREPLAY_DATA: '/nowhere' }), []],
    ['--data before all others', () => ({ KREPLAY_DATA: '/nowhere', ...NONE }), ['--data']],
    ['--recording before all others', () => ({ KREPLAY_DATA: '/nowhere', ...NONE }), ['--recording']],
  ])('is taken from %s', async (_, environment, [flag]) => {
    const given = flag === undefined ? [] : [flag, flag === '--data' ? data : recordingPath(data)];
    const { code, stdout, stderr } = await startWith(environment(), ...COUNT, ...given).ended;
    expect([stderr, stdout, code]).toEqual(['', 'n\r\n2\r\n', 0]);
  });

  test('is used by export and import too', async () => {
    const output = join(newFolder(), 'bundle.kreplay');
    const exported = await startWith(
      { ...NONE, KREPLAY_DATA: data },
      'export',
      '--from',
      '0',
      '--to',
      `${START + 10n}`,
      '--output',
      output,
    ).ended;
    expect([exported.code, exported.stdout + exported.stderr]).toEqual([0, expect.stringContaining('2 events')]);
    const other = newFolder();
    const imported = await startWith({ ...NONE, KREPLAY_DATA: other }, 'import', output).ended;
    expect([imported.code, imported.stdout]).toEqual([0, expect.stringContaining(other)]);
    expect(readdirSync(other)).not.toEqual([]);
  });

  test('is refused if its own setting is invalid, but not if another one is', async () => {
    const wrong = await startWith({ KREPLAY_CONFIG: configured('data = 7') }, ...COUNT).ended;
    expect([wrong.code, wrong.stderr]).toEqual([2, expect.stringMatching(/^kreplay: .*kreplay\.toml:1:8: /)]);
    const missing = await startWith({ KREPLAY_CONFIG: '/nowhere.toml' }, ...COUNT).ended;
    expect([missing.code, missing.stderr]).toEqual([2, expect.stringContaining('/nowhere.toml')]);
    const others = configured(`data = "${data}"\n[agent]\nretain-bites = "1GB"`);
    expect((await startWith({ KREPLAY_CONFIG: others }, ...COUNT).ended).code).toBe(0);
  });
});

describe('KREPLAY_URL', () => {
  test.each([
    ['events'],
    ['transactions'],
    ['services'],
    ['stats'],
    ['whatif order-1'],
    ['pin --list'],
    ['replay order-1 --output ndjson'],
  ])('is the daemon that %s queries', async (command) => {
    const { code, stderr } = await startWith({ KREPLAY_URL: served.url }, ...command.split(' ')).ended;
    expect([code, stderr]).toEqual([0, expect.not.stringContaining('no daemon')]);
  });

  test('yields to --url and --recording, and is reported if it is not a URL', async () => {
    const nowhere = { KREPLAY_URL: 'http://127.0.0.1:1' };
    expect((await startWith(nowhere, 'events', '--url', served.url).ended).code).toBe(0);
    expect((await startWith(nowhere, 'events', '--recording', recordingPath(data)).ended).code).toBe(0);
    const { code, stderr } = await startWith({ KREPLAY_URL: 'ftp://x' }, 'events').ended;
    expect([code, stderr]).toEqual([1, expect.stringContaining('KREPLAY_URL ftp://x: must be')]);
  });

  test('is in the help of every command that has --url', async () => {
    // The address of `ship` is that of a database.
    const commands = (await createWholeProgram()).commands.filter(
      (command) => command.name() !== 'ship' && command.options.some(({ long }) => long === '--url'),
    );
    expect(commands.length).toBeGreaterThan(8);
    for (const command of commands) expect(command.helpInformation()).toMatch(/--url[\s\S]*KREPLAY_URL/);
  });
});
