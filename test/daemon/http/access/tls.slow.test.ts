/** Tests HTTPS by a real daemon with real certificates: versions, client certificates, reload. */
import { once } from 'node:events';
import { copyFileSync, readFileSync, writeFileSync } from 'node:fs';
import { request as plainRequest } from 'node:http';
import { type RequestOptions, request } from 'node:https';
import { connect as connectPlain } from 'node:net';
import { join } from 'node:path';
import { connect, type TLSSocket } from 'node:tls';
import { type Certificate, newAuthority, newCertificate, read } from '../../certificates.ts';
import { type Running, start, startWith } from '../../command_line.ts';
import { hosted, hostedWith } from '../../hosted.ts';
import { samplesOf, valuesOf } from '../../metrics/scraped.ts';
import { newFolder, recorded, START } from '../../recorded.ts';

let folder: string;
let data: string;
let authority: Certificate;
let own: Certificate;
beforeAll(() => {
  folder = newFolder();
  data = recorded([{ at: START }]);
  authority = newAuthority(folder);
  own = newCertificate(folder, 'own', authority);
});

const running: Running[] = [];
afterEach(async () => {
  for (const { child, ended } of running.splice(0)) {
    child.kill('SIGKILL');
    await ended;
  }
});

async function daemon(...args: string[]): Promise<Running & { url: URL }> {
  const one = start('daemon', '--data', data, '--listen', '127.0.0.1:0', ...args);
  running.push(one);
  const line = await one.printed(/\n/);
  return { ...one, url: new URL(/ at (\S+)\n/.exec(line)![1]!) };
}

const withTls = (...more: string[]) => daemon('--tls-cert', own.cert, '--tls-key', own.key, ...more);
const ca = () => readFileSync(authority.cert);

async function get(url: URL, options: RequestOptions = {}) {
  const sent = request(url.pathname === '/' ? new URL('/api/events', url) : url, {
    ca: ca(),
    agent: false,
    ...options,
  });
  sent.end();
  const [res] = await once(sent, 'response');
  let text = '';
  for await (const chunk of res) text += chunk;
  return { status: res.statusCode, headers: res.headers, text };
}

async function certificateOf(url: URL): Promise<string> {
  const socket: TLSSocket = connect({ host: '127.0.0.1', port: Number(url.port), ca: ca() });
  await once(socket, 'secureConnect');
  const { CN } = socket.getPeerCertificate().subject;
  socket.destroy();
  return String(CN);
}

test('the daemon serves HTTPS with HSTS, and the commands use it', async () => {
  const { url } = await withTls();
  expect(url.protocol).toBe('https:');
  const { status, headers } = await get(url);
  expect([status, headers['strict-transport-security']]).toEqual([200, expect.stringMatching(/^max-age=\d+$/)]);
  expect((await get(url, { headers: { origin: url.origin } })).status).toBe(200);
  expect((await get(url, { headers: { origin: url.origin.replace('https', 'http') } })).status).toBe(403);

  const { code, stdout } = await startWith({ KREPLAY_CA: authority.cert }, 'events', '--url', url.origin).ended;
  expect([code, stdout.split('\n').length - 1]).toEqual([0, 1]);
  const distrusting = await hosted('events', '--url', url.origin);
  expect([distrusting.code, distrusting.stderr]).toEqual([1, expect.stringMatching(/^kreplay: cannot reach .*\n$/)]);
});

test('versions before 1.2 and plain HTTP are refused', async () => {
  const { url } = await withTls();
  const protocolOf = async (version: 'TLSv1.1' | 'TLSv1.2' | 'TLSv1.3') => {
    const versions = { minVersion: version, maxVersion: version, ciphers: 'DEFAULT@SECLEVEL=0' };
    const socket = connect({ host: '127.0.0.1', port: Number(url.port), ca: ca(), ...versions });
    const protocol = await once(socket, 'secureConnect').then(
      () => socket.getProtocol(),
      () => null,
    );
    socket.destroy();
    return protocol;
  };
  expect(await protocolOf('TLSv1.1')).toBeNull();
  expect(await protocolOf('TLSv1.2')).toBe('TLSv1.2');
  expect(await protocolOf('TLSv1.3')).toBe('TLSv1.3');
  const plain = plainRequest({ host: '127.0.0.1', port: url.port, path: '/healthz' });
  plain.end();
  await expect(once(plain, 'response')).rejects.toThrow();
  expect((await get(url)).status).toBe(200);
});

test('only clients with a certificate of the CA are served', async () => {
  const { url } = await withTls('--tls-client-ca', authority.cert);
  const client = newCertificate(folder, 'client', authority);
  const stranger = newCertificate(folder, 'stranger', newAuthority(folder, 'other-ca'));
  expect((await get(url, read(client))).status).toBe(200);
  await expect(get(url)).rejects.toThrow();
  await expect(get(url, read(stranger))).rejects.toThrow();

  const environment = {
    KREPLAY_CA: authority.cert,
    KREPLAY_CLIENT_CERT: client.cert,
    KREPLAY_CLIENT_KEY: client.key,
  };
  expect((await hostedWith(environment, 'events', '--url', url.origin)).code).toBe(0);

  const refused = async (more: Record<string, string>, at = url.origin) => {
    const { code, stderr } = await hostedWith({ KREPLAY_CA: authority.cert, ...more }, 'services', '--url', at);
    return [code, stderr.split('\n').length, stderr];
  };
  expect(await refused({})).toEqual([1, 2, expect.stringContaining('set KREPLAY_CLIENT_CERT')]);
  const other = { KREPLAY_CLIENT_CERT: stranger.cert, KREPLAY_CLIENT_KEY: stranger.key };
  expect(await refused(other)).toEqual([1, 2, expect.stringContaining('another KREPLAY_CLIENT_CERT')]);
  expect(await refused({}, url.origin.replace('https', 'http'))).toEqual([1, 2, expect.stringContaining('https://')]);

  const { text } = await get(new URL('/metrics', url), read(client));
  // Two connections had no certificate, two had one of another CA, and one had no TLS.
  expect(valuesOf(samplesOf(text), 'kreplay_connections_closed_total', { reason: 'tls' })).toEqual([5]);
});

test('SIGHUP loads a new certificate, and keeps the old one if the new one is invalid', async () => {
  const [cert, key] = [join(folder, 'served.pem'), join(folder, 'served.key')];
  copyFileSync(own.cert, cert);
  copyFileSync(own.key, key);
  const { child, url, logged } = await daemon('--tls-cert', cert, '--tls-key', key, '--tls-client-ca', authority.cert);
  expect(await certificateOf(url)).toBe('own');

  const next = newCertificate(folder, 'next', authority);
  copyFileSync(next.cert, cert);
  child.kill('SIGHUP');
  await logged(/certificates stay as they were/);
  expect(await certificateOf(url)).toBe('own');

  copyFileSync(next.key, key);
  child.kill('SIGHUP');
  await logged(/certificates were read again/);
  expect(await certificateOf(url)).toBe('next');
  // The reload keeps the requirement of a client certificate.
  await expect(get(url)).rejects.toThrow();
  expect((await get(url, read(next))).status).toBe(200);
});

test('clients with unfinished handshakes do not delay the shutdown', async () => {
  const { child, ended, url } = await withTls();
  const silent = connectPlain(Number(url.port), '127.0.0.1').on('error', () => {});
  await once(silent, 'connect');
  expect((await get(url)).status).toBe(200);
  child.kill('SIGTERM');
  expect((await ended).code).toBe(0);
});

describe('a start that cannot succeed', () => {
  test.each([
    ['a certificate alone', () => ['--tls-cert', own.cert]],
    ['a key alone', () => ['--tls-key', own.key]],
    ['a client CA alone', () => ['--tls-client-ca', authority.cert]],
    ['the key of another', () => ['--tls-cert', own.cert, '--tls-key', authority.key]],
    ['a missing file', () => ['--tls-cert', own.cert, '--tls-key', join(folder, 'none')]],
    ['a CA that is none', () => ['--tls-cert', own.cert, '--tls-key', own.key, '--tls-client-ca', notPem()]],
  ])('is reported in one line, and is not tried again: %s', async (_name, args) => {
    const ended = await hosted('daemon', '--data', data, '--listen', '127.0.0.1:0', ...args());
    expect([ended.code, ended.stdout, ended.stderr]).toEqual([
      2,
      '',
      expect.stringMatching(/^(kreplay: .+|error: .+\nSee kreplay daemon --help)\n$/),
    ]);
  });

  function notPem(): string {
    const path = join(folder, 'text');
    writeFileSync(path, 'secret text');
    return path;
  }
});
