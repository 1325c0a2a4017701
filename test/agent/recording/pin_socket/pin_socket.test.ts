/** Tests the agent's socket for pins: what it changes, and what clients that send something else get. */
import { once } from 'node:events';
import { chmodSync, existsSync, lstatSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { askForPin } from '../../../../agent/recording/pin_socket/ask_for_pin.ts';
import { openPinSocket } from '../../../../agent/recording/pin_socket/pin_socket.ts';
import {
  PIN_REQUEST_BYTES_MAX,
  PIN_SOCKET,
  type PinMessage,
  writePinMessage,
} from '../../../../agent/recording/pin_socket/protocol.ts';
import { openReader } from '../../../../agent/recording/read/reader.ts';
import { appendRows, newFolder, newWriter, recorded, recordingPath, START } from '../../../daemon/recorded.ts';

const problems: string[] = [];
const sockets: { close(): Promise<void> }[] = [];
afterAll(async () => {
  for (const socket of sockets) await socket.close();
});

/** Serves pins of a folder until the end of the tests. */
function serve(folder: string): string {
  const path = join(folder, PIN_SOCKET);
  sockets.push(
    openPinSocket(path, {
      recording: recordingPath(folder),
      users: [],
      onProblem: (problem) => problems.push(problem),
    }),
  );
  return path;
}

const listPins = (folder: string) => {
  const reader = openReader(recordingPath(folder));
  const pins = reader.pins().map(({ transactionId, fromNs }) => ({ transactionId, fromNs }));
  reader.close();
  return pins;
};

const pinOf = (transactionId: string, file = 'recording.kreplay'): PinMessage => ({
  action: 'pin',
  file,
  transactionId,
  beforeNs: 5n,
  nowNs: START,
});
const unpinOf = (transactionId: string): PinMessage => ({
  action: 'unpin',
  file: 'recording.kreplay',
  transactionId,
});

/** Sends bytes and returns everything that comes back. */
async function send(path: string, bytes: string): Promise<string> {
  const socket = connect(path).on('error', () => {});
  socket.end(bytes);
  return await text(socket).catch(() => '');
}

let folder: string;
let path: string;
beforeAll(() => {
  folder = recorded([
    { at: START, transaction: 'one' },
    { at: START + 1n, transaction: 'a\n"quoted" id' },
  ]);
  path = serve(folder);
});
afterEach(() => expect(problems.splice(0)).toEqual([]));

test('a pin is in the recording once it is answered, and gone once it is removed', async () => {
  expect(await askForPin(folder, pinOf('one'))).toEqual({ changed: true });
  expect(listPins(folder)).toEqual([{ transactionId: 'one', fromNs: START - 5n }]);
  expect(await askForPin(folder, pinOf('one'))).toEqual({ changed: true });
  expect(await askForPin(folder, unpinOf('one'))).toEqual({ changed: true });
  expect(await askForPin(folder, unpinOf('one'))).toEqual({ changed: false });
  expect(await askForPin(folder, pinOf('none'))).toEqual({ changed: false });
  expect(await askForPin(folder, pinOf('a\n"quoted" id'))).toEqual({ changed: true });
  expect(await askForPin(folder, unpinOf('a\n"quoted" id'))).toEqual({ changed: true });
  expect(listPins(folder)).toEqual([]);
});

test('pins are changed one after another while the recording is written', async () => {
  const written = newFolder();
  const writer = newWriter(written);
  const ids = Array.from({ length: 15 }, (_, i) => `tx-${i}`);
  appendRows(
    writer,
    ids.map((transaction, i) => ({ at: START + BigInt(i), transaction })),
  );
  serve(written);
  const asked = Promise.all(ids.map((id) => askForPin(written, pinOf(id))));
  let isOver = false;
  void asked.then(() => {
    isOver = true;
  });
  for (let at = 1000n; !isOver; at++) {
    appendRows(writer, [{ at: START + at }]);
    await sleep(1);
  }
  writer.close();
  expect(await asked).toEqual(ids.map(() => ({ changed: true })));
  expect(listPins(written).map(({ transactionId }) => transactionId)).toEqual(expect.arrayContaining(ids));
});

test('a file outside the folder, another name and a file that is none are refused', async () => {
  for (const file of ['../recording.kreplay', '/etc/passwd', '..', 'sessions.sqlite', '.kreplay/../x.kreplay', ''])
    expect(await askForPin(folder, pinOf('one', file))).toMatchObject({ code: 'bad_request' });
  expect(await askForPin(folder, pinOf('one', 'none.kreplay'))).toMatchObject({ code: 'recording_not_readable' });
});

test('what is no request is refused in words, and changes nothing', async () => {
  const garbage = fc.oneof(fc.string(), fc.json());
  await fc.assert(
    fc.asyncProperty(garbage, async (bytes) => {
      expect(JSON.parse(await send(path, `${bytes}\n`))).toMatchObject({ code: 'bad_request' });
    }),
    { numRuns: 50 },
  );
  const whole = writePinMessage(pinOf('one'));
  // A request that was cut off is not carried out.
  for (const cut of ['', whole.slice(0, -1), `${'x'.repeat(PIN_REQUEST_BYTES_MAX + 1)}`])
    expect(JSON.parse(await send(path, cut))).toMatchObject({ code: 'bad_request' });
  expect(listPins(folder)).toEqual([]);
});

test('clients that connect and send nothing are disconnected, and others are served then', async () => {
  const silent = Array.from({ length: 16 }, () => connect(path).on('error', () => {}));
  await Promise.all(silent.map((socket) => once(socket, 'close')));
  expect(await askForPin(folder, unpinOf('one'))).toEqual({ changed: false });
}, 20_000);

test('clients that send a byte now and then keep no place', async () => {
  const slow = Array.from({ length: 16 }, () => connect(path).on('error', () => {}));
  const timer = setInterval(() => {
    for (const socket of slow) socket.write('x');
  }, 500);
  // once() would reject when a write meets the connection that the agent has closed.
  await Promise.all(slow.map((socket) => new Promise((resolve) => socket.on('close', resolve))));
  clearInterval(timer);
  expect(await askForPin(folder, unpinOf('one'))).toEqual({ changed: false });
}, 20_000);

test('a change whose client has left is not made', async () => {
  const left = recorded([{ at: START, transaction: 'one' }]);
  const at = serve(left);
  while (!existsSync(at)) await sleep(1);
  const first = askForPin(left, unpinOf('one'));
  const gone = connect(at);
  await once(gone, 'connect');
  gone.write(writePinMessage(pinOf('one')), () => gone.destroy());
  await first;
  expect(await askForPin(left, unpinOf('none'))).toEqual({ changed: false });
  expect(listPins(left)).toEqual([]);
});

test('only readers of the recording may connect', async () => {
  for (const [mode, expected] of [
    [0o600, 0o600],
    [0o640, 0o620],
    [0o644, 0o622],
  ] as const) {
    const other = recorded([{ at: START, transaction: 'one' }]);
    chmodSync(recordingPath(other), mode);
    const at = serve(other);
    while (!existsSync(at)) await sleep(1);
    while ((lstatSync(at).mode & 0o777) !== expected) await sleep(1);
  }
}, 10_000);

test('a socket that a killed agent left is replaced, and no agent is no answer', async () => {
  const left = recorded([{ at: START, transaction: 'one' }]);
  expect(await askForPin(left, pinOf('one'))).toBe('no agent is running');
  const dead = createServer().listen(join(left, PIN_SOCKET));
  await once(dead, 'listening');
  serve(left);
  await sleep(10);
  expect(await askForPin(left, pinOf('one'))).toEqual({ changed: true });
  dead.close();
});

test('something else at the place of the socket gives a reason, in time', async () => {
  for (const answer of ['', 'HTTP/1.1 400 Bad Request\r\n\r\n', '{"changed":1}\n', 'x'.repeat(1 << 20)]) {
    const other = newFolder();
    const server = createServer((socket) => socket.on('error', () => {}).end(answer)).listen(join(other, PIN_SOCKET));
    await once(server, 'listening');
    expect(typeof (await askForPin(other, pinOf('one')))).toBe('string');
    server.close();
  }
  const silent = newFolder();
  const server = createServer(() => {}).listen(join(silent, PIN_SOCKET));
  await once(server, 'listening');
  expect(await askForPin(silent, pinOf('one'), 100)).toBe('it does not answer');
  server.close();
});
