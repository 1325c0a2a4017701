// Tests `kreplay config`, and how the long-running commands use their configuration, by running them.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { endAll, freePort, kreplay, start } from '../../e2e/kreplay.ts';

const folder = mkdtempSync(join(tmpdir(), 'kreplay-config-'));
const file = join(folder, 'kreplay.toml');
const data = join(folder, 'data');

beforeEach(() => rmSync(data, { recursive: true, force: true }));

afterAll(() => {
  endAll();
  rmSync(folder, { recursive: true, force: true });
});

function config(text: string, args: readonly string[], variables: NodeJS.ProcessEnv = {}) {
  writeFileSync(file, text);
  return kreplay(['config', ...args, '--config', file], { env: { ...process.env, ...variables } });
}

test('validate prints what is read, and every error in it', () => {
  expect(config('[agent]\nring-size = 8\n', ['validate'])).toMatchObject({
    status: 0,
    stdout: `kreplay: ${file}: all right\n`,
    stderr: '',
  });
  const wrong = config('[agent]\nring-size = 9\n[daemon]\nlisen = "127.0.0.1:1"\n', ['validate']);
  expect(wrong).toMatchObject({ status: 2, stdout: '' });
  expect(wrong.stderr.trim().split('\n')).toEqual([
    `kreplay: ${file}:4:1: there is no lisen in [daemon]; did you mean listen?`,
    `${file}:2:13: ring-size: It must be a power of two from 1 to 2048.`,
  ]);
});

test('validate checks the named files and the consistency of the settings', () => {
  const rules = join(folder, 'rules.json');
  writeFileSync(rules, '[{"service": "shop"}]');
  const text = `[agent]\nservice-rules = ${JSON.stringify(rules)}\n[daemon]\ntls-cert = "cert.pem"\n`;
  const { status, stderr } = config(text, ['validate']);
  expect(status).toBe(2);
  expect(stderr).toContain(`[agent] ${rules}, rule 1: give one of`);
  expect(stderr).toContain('[daemon] --tls-cert and --tls-key go together');
});

test('validate refuses an address that other machines reach without tokens', () => {
  const open = '[daemon]\nlisten = "0.0.0.0:7467"\n[watch]\nlisten = "0.0.0.0:7468"\n';
  const { status, stderr } = config(open, ['validate']);
  expect(status).toBe(2);
  expect(stderr).toMatch(/\[daemon\] refusing to listen on http:.*:7467 without tokens/);
  expect(stderr).toMatch(/\[watch\] refusing to listen on http:.*:7468 without tokens/);
});

test('validate leaves a secret that only the service has to its start', () => {
  const rules = join(folder, 'watch.toml');
  const text = `[watch]\nrules = ${JSON.stringify(rules)}\n`;
  const checkSecret = (secretFile: string) => {
    writeFileSync(rules, `[webhook]\nurl = "https://hooks.example"\nsecret-file = "${secretFile}"\n`);
    const { status, stderr } = config(text, ['validate']);
    return [status, stderr];
  };
  expect(checkSecret('webhook.secret')).toEqual([0, '']);
  expect(checkSecret(join(folder, 'none'))).toEqual([2, expect.stringContaining(`there is no ${folder}/none`)]);
});

test('a named file must exist', () => {
  const { status, stderr } = kreplay(['agent', '--config', join(folder, 'none.toml')]);
  expect(status).toBe(2);
  expect(stderr).toContain('none.toml cannot be read: ENOENT');
});

test('print states the source of each value, and its text is an equivalent file', () => {
  const text = 'log-level = "warn"\n[agent]\nservice = ["a\\"b", "c"]\npid = [7]\n[daemon]\nstate = false\n';
  const variables = { KREPLAY_AGENT_RING_SIZE: '4' };
  const { stdout } = config(text, ['print', '--origin'], variables);
  expect(stdout).toContain(`service = ["a\\"b", "c"] # ${file}:3:1\n`);
  expect(stdout).toContain('ring-size = 4 # $KREPLAY_AGENT_RING_SIZE\n');
  expect(stdout).toContain('listen = "127.0.0.1:7467" # default\n');
  expect(stdout).toContain('# retain-age is not set\n');
  const plain = config(text, ['print'], variables).stdout;
  expect(config(plain, ['print']).stdout).toBe(plain);
  const json = JSON.parse(config(text, ['print', '--output', 'json'], variables).stdout);
  expect(json.files).toEqual([file]);
  expect(json.agent['ring-size']).toEqual({
    value: 4,
    origin: { from: 'environment', name: 'KREPLAY_AGENT_RING_SIZE' },
  });
  expect(json.agent.pid).toEqual({ value: [7], origin: { from: 'file', path: file, line: 4, column: 1 } });
  expect(json.daemon.state.value).toBe(false);
  expect(json.daemon['log-level']).toEqual({ value: 'warn', origin: { from: 'file', path: file, line: 1, column: 1 } });
  expect(json.agent.node).toEqual({ value: null, origin: { from: 'default' } });
});

test('the agent reads its own section; SIGHUP reads it again, and reports what requires a restart', async () => {
  const settings = (more: string) => `data = ${JSON.stringify(data)}\n[daemon]\nno-such-key = 1\n[agent]\n${more}`;
  writeFileSync(file, settings('ring-size = 4\n'));
  const agent = start(['agent', '--config', file]);
  await agent.says(`recording to ${data}/recording.kreplay`);
  writeFileSync(file, settings('ring-size = 8\ncomm = ["dd"]\n'));
  agent.process.kill('SIGHUP');
  await agent.complains(/"settings":\["ring-size"\].*read at the next start/);
  await agent.complains(/the filter was read again/);
  writeFileSync(file, settings('comm = "dd"\n'));
  agent.process.kill('SIGHUP');
  await agent.complains(/comm must be a list of texts.*the filter stays as it is/);
  agent.process.kill('SIGTERM');
  expect(await agent.ended).toEqual({ status: 0, signal: null });
});

test('up passes flags, variables and the file to the right process', async () => {
  const port = await freePort();
  writeFileSync(
    file,
    `data = "/nowhere"\nlog-format = "text"\n[daemon]\nlisten = "127.0.0.1:${port}"\ndata = "/none"\n`,
  );
  const up = start(['up', '--config', file, '--data', data], ['env', 'KREPLAY_DAEMON_LOG_LEVEL=debug']);
  await up.says('Try next');
  expect(up.output()).toContain(`serving ${data} at http://127.0.0.1:${port}`);
  const asked = kreplay(['services', '--url', `http://127.0.0.1:${port}`]);
  expect(asked).toMatchObject({ status: 0, stderr: '' });
  await up.complains(/kreplay-daemon debug request/);
  writeFileSync(file, `data = ${JSON.stringify(data)}\nlog-level = "error"\n`);
  up.process.kill('SIGHUP');
  await up.complains(/kreplay-daemon warn the configuration has changed.*"listen"/);
  up.process.kill('SIGTERM');
  expect(await up.ended).toEqual({ status: 0, signal: null });
});

test.each(['agent', 'daemon', 'up'])('%s does not start with an invalid configuration', (command) => {
  const section = command === 'daemon' ? 'daemon' : 'agent';
  writeFileSync(file, `data = ${JSON.stringify(data)}\n[${section}]\nnonsense = 1\n`);
  const { status, stdout, stderr } = kreplay([command, '--config', file]);
  expect([status, stdout]).toEqual([2, '']);
  expect(stderr).toMatch(new RegExp(`^kreplay: ${file}:3:1: there is no nonsense in \\[${section}\\]`));
});
