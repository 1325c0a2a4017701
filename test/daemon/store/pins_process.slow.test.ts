/** Tests pins by daemon processes: next to a busy agent, and as a user with read access only. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync } from 'node:fs';
import { request } from 'node:http';
import { resolve } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { openReader } from '../../../agent/recording/read/reader.ts';
import { AS_NOBODY, NOBODY } from '../../unprivileged.ts';
import { appendRows, newFolder, newWriter, recorded, recordingPath, START } from '../recorded.ts';

const ENTRY = resolve(import.meta.dirname, '../../../kreplay.ts');

const daemons: ChildProcess[] = [];
afterAll(() =>
  Promise.all(
    daemons.map((child) => {
      child.kill();
      return once(child, 'close');
    }),
  ),
);

interface Answer {
  status: number;
  code?: string;
  detail?: string;
}

/** Starts a daemon and returns a function that sends it a request. */
async function daemonOn(data: string, front: readonly string[] = [], ...more: string[]) {
  const served = ['daemon', '--data', data, ...more, '--listen', '127.0.0.1:0'];
  const [command, ...args] = [...front, process.execPath, ENTRY, ...served];
  const child = spawn(command!, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  daemons.push(child);
  const [line] = await once(child.stdout.setEncoding('utf8'), 'data');
  const port = Number(/:(\d+)\n/.exec(line)![1]);
  return async (method: string, path: string): Promise<Answer> => {
    const sent = request({ host: '127.0.0.1', port, method, path, agent: false }).end();
    const [res] = await once(sent, 'response');
    const text = (await res.setEncoding('utf8').toArray()).join('');
    return { status: res.statusCode, ...(text && JSON.parse(text)) };
  };
}

test('a busy agent and two daemons write concurrently', async () => {
  const folder = newFolder();
  const writer = newWriter(folder);
  const ids = Array.from({ length: 30 }, (_, i) => `tx-${i}`);
  appendRows(
    writer,
    ids.map((transaction, i) => ({ at: START + BigInt(i), transaction })),
  );
  // Only one daemon can keep replay sessions in a data folder.
  const ask = await Promise.all([daemonOn(folder), daemonOn(folder, [], '--no-state')]);
  let flushes = 0;
  let asking = true;
  const write = async () => {
    while (asking) {
      appendRows(writer, [{ at: START + 1000n + BigInt(flushes++) }]);
      await setImmediate();
    }
  };
  const pinAll = async () => {
    const answers = await Promise.all(ids.map((id, i) => ask[i % 2]!('POST', `/api/transactions/${id}/pin`)));
    asking = false;
    return answers.map(({ status }) => status);
  };
  const [statuses] = await Promise.all([pinAll(), write()]);
  writer.close();
  expect(statuses).toEqual(Array(ids.length).fill(200));
  const reader = openReader(recordingPath(folder));
  expect(
    reader
      .pins()
      .map(({ transactionId }) => transactionId)
      .sort(),
  ).toEqual(ids.toSorted());
  expect(reader.info().eventCount).toBe(ids.length + flushes);
  reader.close();
});

const asRoot = process.getuid!() === 0 ? describe : describe.skip;

asRoot('a daemon with read-only access', () => {
  const TX = [{ at: START, transaction: 'tx' }];

  async function expectRefusal(folder: string): Promise<void> {
    chmodSync(folder, 0o755);
    const ask = await daemonOn(folder, AS_NOBODY);
    const path = recordingPath(folder);
    const refused = { status: 503, code: 'recording_not_writable' };
    const pinned = openReader(path);
    const before = pinned.pins();
    pinned.close();
    const answer = await ask('POST', '/api/transactions/tx/pin');
    expect(answer).toMatchObject(refused);
    expect(answer.detail).toBe(
      `${path} cannot be written by the daemon's user: run the daemon as the user that the agent runs as`,
    );
    expect(await ask('POST', '/api/transactions/none/pin')).toMatchObject({ code: 'transaction_not_found' });
    const unpinned = before.length > 0 ? refused : { status: 404, code: 'not_pinned' };
    expect(await ask('DELETE', '/api/transactions/tx/pin')).toMatchObject(unpinned);
    expect(await ask('GET', '/api/transactions/tx')).toMatchObject({ status: 200, pinned: before.length > 0 });
  }

  test('cannot pin in a recording that an agent has closed', () => expectRefusal(recorded(TX)));

  test('cannot pin in a recording that an agent writes', async () => {
    const folder = newFolder();
    const writer = newWriter(folder);
    appendRows(writer, TX);
    await expectRefusal(folder);
    writer.close();
  });

  test('cannot pin in its own recording in a folder of another user', async () => {
    const folder = recorded(TX);
    chownSync(recordingPath(folder), NOBODY, NOBODY);
    await expectRefusal(folder);
  });

  test('shows the pin of another user, but cannot remove it', async () => {
    const folder = recorded(TX);
    const ask = await daemonOn(folder);
    expect(await ask('POST', '/api/transactions/tx/pin')).toMatchObject({ status: 200 });
    await expectRefusal(folder);
  });

  test('does not pin in a writable recording if another is read-only', async () => {
    const [mine, theirs] = [recorded(TX), recorded(TX)];
    for (const path of [mine, recordingPath(mine)]) chownSync(path, NOBODY, NOBODY);
    chmodSync(theirs, 0o755);
    const ask = await daemonOn(mine, AS_NOBODY, '--recording', recordingPath(theirs));
    expect(await ask('POST', '/api/transactions/tx/pin')).toMatchObject({
      status: 503,
      code: 'recording_not_writable',
    });
    expect(await ask('GET', '/api/transactions/tx')).toMatchObject({ status: 200, pinned: false });
    expect(await ask('DELETE', '/api/transactions/tx/pin')).toMatchObject({ status: 404, code: 'not_pinned' });
  });

  test('can pin if it owns the folder and the file', async () => {
    const folder = recorded(TX);
    for (const path of [folder, recordingPath(folder)]) chownSync(path, NOBODY, NOBODY);
    const ask = await daemonOn(folder, AS_NOBODY);
    expect(await ask('POST', '/api/transactions/tx/pin')).toMatchObject({ status: 200 });
    expect(await ask('DELETE', '/api/transactions/tx/pin')).toMatchObject({ status: 204 });
  });
});
