/** `kreplay doctor`: what it finds here is true, and without privileges it says what is missing. */
import { spawnSync } from 'node:child_process';
import { LAYERS } from '../../agent/capture/layers.ts';
import { AS_NOBODY } from '../unprivileged.ts';
import { endAll, KREPLAY, kreplay, start, temporaryFolder } from './kreplay.ts';

const folder = temporaryFolder();

afterEach(endAll);
afterAll(folder.remove);

test('this host can be recorded, for people and for programs', () => {
  const { status, stdout } = kreplay(['doctor']);
  expect([status, stdout]).toEqual([0, expect.stringMatching(/^ok +kernel .*This host can be recorded/s)]);
  const { ok, checks, layers } = JSON.parse(kreplay(['doctor', '--json']).stdout);
  expect([ok, checks.every((check: { ok: boolean }) => check.ok)]).toEqual([true, true]);
  expect(layers.map(({ name }: { name: string }) => name)).toEqual(Object.keys(LAYERS));
});

test('its layers are those that an agent says at its start', async () => {
  const { layers } = JSON.parse(kreplay(['doctor', '--json']).stdout);
  const agent = start(['agent', '--data', folder.path, '--http-services', 'x']);
  await agent.says('recording to');
  const said = /attribution by (.*)/.exec(agent.output())![1]!;
  for (const { name, on } of layers) {
    expect(said.includes(`${name} off`)).toBe(!on);
    expect(said).toContain(name);
  }
});

test('without privileges it says which are missing, and fails', () => {
  const [file, ...args] = [...AS_NOBODY, KREPLAY, 'doctor'];
  const { status, stdout } = spawnSync(file, args, { encoding: 'utf8' });
  expect(status).toBe(1);
  expect(stdout).toMatch(/NO +privileges +CAP_PERFMON and CAP_BPF missing: run as root/);
  expect(stdout).toMatch(/NO +programs/);
  expect(stdout).toContain('This host can not be recorded as it is.');
});
