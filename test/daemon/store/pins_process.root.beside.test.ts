/** Tests pins by daemon processes: next to a busy agent, and as a user with read access only. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, chownSync } from 'node:fs';
import { request } from 'node:http';
import { dirname, resolve } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { openReader } from '../../../agent/recording/read/reader.ts';
import { pinTransaction } from '../../../agent/recording/retain/pins.ts';
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

describe('a daemon with read-only access', () => {
  const CASES = ['closed', 'written', 'its own, in the folder of another', 'pinned', 'writable', 'owned'] as const;
  type Case = (typeof CASES)[number];

  const folders = new Map<Case, string>();
  let writer: ReturnType<typeof newWriter>;
  let ask: Awaited<ReturnType<typeof daemonOn>>;

  /** One daemon serves a recording for each case, which has a transaction of that name. */
  beforeAll(async () => {
    for (const name of CASES) folders.set(name, recorded(name === 'written' ? [] : [transactionOf(name)]));
    const [written, owned, writable] = (['written', 'owned', 'writable'] as const).map((name) => folders.get(name)!);
    writer = newWriter(written!);
    appendRows(writer, [transactionOf('written')]);
    pinTransaction(pathOf('pinned'), { transactionId: 'pinned', beforeNs: 0n, nowNs: START });
    // The same transaction is in a recording that the daemon's user may not write.
    const readOnly = recorded([transactionOf('writable')]);
    for (const path of [owned!, pathOf('owned'), writable!, pathOf('writable')]) chownSync(path, NOBODY, NOBODY);
    chownSync(pathOf('its own, in the folder of another'), NOBODY, NOBODY);
    for (const folder of [...folders.values(), readOnly]) chmodSync(folder, 0o755);
    const [data, ...others] = [...CASES.map(pathOf), recordingPath(readOnly)];
    ask = await daemonOn(dirname(data!), AS_NOBODY, ...others.flatMap((path) => ['--recording', path]));
  });
  afterAll(() => writer.close());

  const pathOf = (name: Case) => recordingPath(folders.get(name)!);
  const transactionOf = (name: Case) => ({ at: START, transaction: name });
  const pinOf = (name: string) => `/api/transactions/${encodeURIComponent(name)}/pin`;

  async function expectRefusal(name: Case): Promise<void> {
    const refused = { status: 503, code: 'recording_not_writable' };
    const reader = openReader(pathOf(name));
    const isPinned = reader.pins().length > 0;
    reader.close();
    const answer = await ask('POST', pinOf(name));
    expect(answer).toMatchObject(refused);
    expect(answer.detail).toBe(
      `${pathOf(name)} cannot be written by the daemon's user, and its agent cannot be asked (no agent is running): start the agent, or run the daemon as the user that the agent runs as`,
    );
    expect(await ask('POST', pinOf('none'))).toMatchObject({ code: 'transaction_not_found' });
    expect(await ask('DELETE', pinOf(name))).toMatchObject(isPinned ? refused : { status: 404, code: 'not_pinned' });
    const found = await ask('GET', `/api/transactions/${encodeURIComponent(name)}`);
    expect(found).toMatchObject({ status: 200, pinned: isPinned });
  }

  test('cannot pin in a recording that an agent has closed', () => expectRefusal('closed'));

  test('cannot pin in a recording that an agent writes', () => expectRefusal('written'));

  test('cannot pin in its own recording in a folder of another user', () =>
    expectRefusal('its own, in the folder of another'));

  test('shows the pin of another user, but cannot remove it', () => expectRefusal('pinned'));

  test('does not pin in a writable recording if another is read-only', async () => {
    expect(await ask('POST', pinOf('writable'))).toMatchObject({ status: 503, code: 'recording_not_writable' });
    expect(await ask('GET', '/api/transactions/writable')).toMatchObject({ status: 200, pinned: false });
    expect(await ask('DELETE', pinOf('writable'))).toMatchObject({ status: 404, code: 'not_pinned' });
  });

  test('can pin if it owns the folder and the file', async () => {
    expect(await ask('POST', pinOf('owned'))).toMatchObject({ status: 200 });
    expect(await ask('DELETE', pinOf('owned'))).toMatchObject({ status: 204 });
  });
});
