/** Pins as installed: an agent records, and a daemon whose user may only read the recording pins through the agent. */
import { chmodSync } from 'node:fs';
import { bash } from '../kernel/programs.ts';
import { AS_NOBODY, NOBODY } from '../unprivileged.ts';
import { endAll, freePort, kreplay, type Running, start, temporaryFolder } from './kreplay.ts';

const folder = temporaryFolder();
afterAll(() => {
  endAll();
  folder.remove();
});

let url: string;

async function startAgent(...flags: string[]): Promise<Running> {
  const agent = start(['agent', '--data', folder.path, ...flags]);
  await agent.says('recording to');
  return agent;
}

async function end(agent: Running, signal: NodeJS.Signals): Promise<void> {
  agent.process.kill(signal);
  await agent.ended;
}

const pin = (...args: string[]) => kreplay([...args, '--url', url]);

beforeAll(async () => {
  const agent = await startAgent('--pins-by', String(NOBODY));
  for (const order of ['pinned-order', 'other-order'])
    bash(`echo 'KREPLAY1 txn=${order}' > /dev/null; echo x > ${folder.path}/${order}`);
  chmodSync(folder.path, 0o755);
  chmodSync(`${folder.path}/recording.kreplay`, 0o644);
  await end(agent, 'SIGINT');
  const port = await freePort();
  url = `http://127.0.0.1:${port}`;
  const daemon = start(['daemon', '--data', folder.path, '--no-state', '--listen', `127.0.0.1:${port}`], AS_NOBODY);
  await daemon.says('serving');
}, 60_000);

test('a daemon that may only read pins through the agent, for a user that the agent knows', async () => {
  expect(pin('pin', 'pinned-order').stderr).toContain('no agent is running');

  const allowing = await startAgent('--pins-by', 'nobody');
  expect(pin('pin', 'pinned-order', '--before', '1s')).toMatchObject({ status: 0, stderr: '' });
  expect(pin('pin', '--list').stdout).toContain('pinned-order');
  expect(pin('pin', 'no-order').stderr).toContain('no events of transaction no-order are recorded');
  await end(allowing, 'SIGKILL');
  expect(pin('pin', '--list').stdout).toContain('pinned-order');

  const refusing = await startAgent();
  expect(pin('unpin', 'pinned-order').stderr).toContain(`name the user in pins-by`);
  await end(refusing, 'SIGINT');

  const again = await startAgent('--pins-by', 'nobody', 'no-such-user');
  expect(again.complaints()).toContain('no user no-such-user');
  expect(pin('unpin', 'pinned-order')).toMatchObject({ status: 0 });
  expect(pin('pin', '--list').stdout).not.toContain('pinned-order');
  await end(again, 'SIGINT');
}, 120_000);
