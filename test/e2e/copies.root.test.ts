/** Tests the copies of a recording that install.md describes: which are whole, and that a wrong one is not taken for whole. */
import { spawnSync } from 'node:child_process';
import { copyFileSync } from 'node:fs';
import { join } from 'node:path';
import { endAll, kreplay, start, temporaryFolder } from './kreplay.ts';

const folder = temporaryFolder();
const inFolder = (name: string) => join(folder.path, name);

afterAll(() => {
  endAll();
  folder.remove();
});

test('a copy by export, and one of an agent that has ended, are whole; one by SQLite is refused', async () => {
  const agent = start(['agent', '--data', inFolder('data')]);
  await agent.says('recording to');
  const recording = inFolder('data/recording.kreplay');
  for (;;) {
    spawnSync('dd', ['if=/dev/zero', `of=${inFolder('written')}`, 'bs=4k', 'count=50', 'oflag=sync']);
    if (kreplay(['events', '--recording', recording, '--limit', '1', '--output', 'ndjson']).stdout !== '') break;
  }
  spawnSync('sqlite3', [recording, `.backup ${inFolder('backup.kreplay')}`]);
  const all = ['export', '--data', inFolder('data'), '--from', '2020-01-01T00:00:00Z'];
  expect(kreplay([...all, '--output', inFolder('copy.kreplay')]).status).toBe(0);
  agent.process.kill('SIGINT');
  expect((await agent.ended).status).toBe(0);
  copyFileSync(recording, inFolder('ended.kreplay'));
  for (const name of ['copy.kreplay', 'ended.kreplay']) {
    const { status, stdout } = kreplay(['verify', inFolder(name)]);
    expect([status, stdout]).toEqual([0, expect.stringMatching(/: whole: [1-9]\d* events/)]);
  }
  const { status, stdout } = kreplay(['verify', inFolder('backup.kreplay')]);
  expect([status, stdout]).toEqual([1, expect.stringContaining('a page does not match its checksum')]);
});
