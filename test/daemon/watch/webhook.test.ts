/** Tests calls of a webhook against receivers that take them, refuse them, lie and hang. */
import { createHmac } from 'node:crypto';
import { chmodSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingHttpHeaders, type RequestListener, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { join } from 'node:path';
import { computeBackoffMs, openWebhook, parseSecret } from '../../../daemon/watch/webhook.ts';
import { newAuthority, newCertificate, read } from '../certificates.ts';
import { newFolder } from '../recorded.ts';

const SECRET = 'a secret of some length';
const servers: { close(): unknown; closeAllConnections?(): void }[] = [];
afterAll(() => {
  for (const server of servers) {
    server.closeAllConnections?.();
    server.close();
  }
});

async function portOf(server: Pick<Server, 'listen' | 'address' | 'close'>): Promise<number> {
  servers.push(server);
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', () => done()));
  return (server.address() as AddressInfo).port;
}

const receiver = (answer: RequestListener) => portOf(createServer(answer));
const never = new AbortController().signal;

function hookAt(port: number, timeoutMs = 5000, secret = SECRET) {
  const secretFile = join(newFolder(), 'secret');
  writeFileSync(secretFile, `${secret}\n`, { mode: 0o600 });
  return openWebhook({ url: new URL(`http://127.0.0.1:${port}/in?a=b`), secretFile, timeoutMs });
}

const send = (hook: ReturnType<typeof openWebhook>, body = '{"a":"ä"}') =>
  hook.send({ id: 'id-1', body, nowMs: 1_700_000_000_500, signal: never });

test('a delivery carries its id, its time, and a signature over both and the body', async () => {
  const got: { headers: IncomingHttpHeaders; body: string; url: string }[] = [];
  const port = await receiver((req, res) => {
    let body = '';
    req.setEncoding('utf8').on('data', (text) => {
      body += text;
    });
    req.on('end', () => {
      got.push({ headers: req.headers, body, url: req.url! });
      res.writeHead(204).end();
    });
  });
  expect(await send(hookAt(port))).toBeUndefined();
  const [{ headers, body, url }] = got as [(typeof got)[0]];
  const signature = createHmac('sha256', SECRET).update(`id-1.1700000000.${body}`).digest('base64');
  expect(headers).toMatchObject({
    'webhook-id': 'id-1',
    'webhook-timestamp': '1700000000',
    'webhook-signature': `v1,${signature}`,
    'content-type': 'application/json',
  });
  expect([body, url]).toEqual(['{"a":"ä"}', '/in?a=b']);
});

test('a status other than 2xx, a redirect, a hanging and a closing receiver are failures, each within its time', async () => {
  let redirected = 0;
  const target = await receiver((_req, res) => {
    redirected++;
    res.end();
  });
  const answers: [RegExp, RequestListener][] = [
    [/^status 500$/, (_req, res) => void res.writeHead(500).end()],
    [/^status 404$/, (_req, res) => void res.writeHead(404).end()],
    [
      /^status 307, and redirects are not followed$/,
      (_req, res) => void res.writeHead(307, { location: `http://127.0.0.1:${target}/` }).end(),
    ],
    [/^no answer within 300 ms$/, () => {}],
    [/^no answer within 300 ms$/, (_req, res) => void res.writeProcessing()],
    [/^(ECONNRESET|the connection was closed)/, (req) => void req.socket.destroy()],
    [/^HPE_/, (req) => void req.socket.end('220 smtp.example\r\n')],
  ];
  for (const [reason, answer] of answers) expect(await send(hookAt(await receiver(answer), 300))).toMatch(reason);
  expect(redirected).toBe(0);
  const closed = await receiver(() => {});
  (servers.pop() as Server).close();
  expect(await send(hookAt(closed))).toBe('ECONNREFUSED');
});

test('headers without an end, slowly sent, end with the time limit', async () => {
  const timers: NodeJS.Timeout[] = [];
  const port = await portOf(
    createTcpServer((socket) => {
      socket.on('error', () => {});
      socket.write('HTTP/1.1 200 OK\r\n');
      timers.push(setInterval(() => socket.write('x-a: b\r\n'), 20));
    }) as unknown as Server,
  );
  expect(await send(hookAt(port, 300))).toBe('no answer within 300 ms');
  timers.forEach(clearInterval);
});

test('a 200 counts although its body never ends', async () => {
  const port = await receiver((_req, res) => void res.writeHead(200).write('a'));
  expect(await send(hookAt(port))).toBeUndefined();
});

test('HTTPS needs a certificate that is trusted', async () => {
  const folder = newFolder();
  const authority = newAuthority(folder);
  const tls = createTlsServer(read(newCertificate(folder, 'here', authority)), (_req, res) => void res.end());
  const port = await portOf(tls as unknown as Server);
  const url = new URL(`https://127.0.0.1:${port}/`);
  expect(await send(openWebhook({ url, timeoutMs: 5000 }))).toMatch(/CERT|SELF_SIGNED|UNABLE/);
  expect(await send(openWebhook({ url, caFile: authority.cert, timeoutMs: 5000 }))).toBeUndefined();
});

test('a secret is text or whsec_ with base64, is long enough, and no one else may read it', () => {
  expect(parseSecret(`whsec_${Buffer.alloc(24, 7).toString('base64')}`)).toEqual(Buffer.alloc(24, 7));
  expect(parseSecret(SECRET)).toEqual(Buffer.from(SECRET));
  expect(parseSecret('short')).toBeUndefined();
  const file = join(newFolder(), 'secret');
  writeFileSync(file, SECRET);
  chmodSync(file, 0o644);
  const open = () => openWebhook({ url: new URL('http://127.0.0.1/'), secretFile: file, timeoutMs: 1 });
  expect(open).toThrow('chmod 600');
  writeFileSync(file, 'short');
  chmodSync(file, 0o600);
  expect(open).toThrow('head -c 32 /dev/urandom | base64 > ');
});

test('attempts come ever later, within five minutes and a half more', () => {
  const waits = Array.from({ length: 30 }, (_, i) => computeBackoffMs(i, () => 0));
  expect(waits.slice(0, 4)).toEqual([1000, 2000, 4000, 8000]);
  expect(Math.max(...waits)).toBe(300_000);
  expect(computeBackoffMs(100, () => 1)).toBe(450_000);
});
