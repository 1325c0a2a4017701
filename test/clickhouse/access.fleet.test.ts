/** Tests who may connect and where to: accounts, passwords from files, addresses, certificates. */
import { chmodSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect } from '../../agent/clickhouse/connection/connection.ts';
import { readAnyRows as rowsOf } from '../../agent/clickhouse/connection/rows.ts';
import { ServerError } from '../../agent/clickhouse/connection/server_error.ts';
import type { ConnectionSettings } from '../../agent/clickhouse/connection/settings.ts';
import { sql } from '../../agent/clickhouse/statements/sql.ts';
import { UserError } from '../../agent/process/errors.ts';
import { newAuthority, newCertificate } from '../daemon/certificates.ts';
import { closeAll, connectedTo, errorOf, one } from './connected.ts';
import { ACCOUNTS, type ClickHouseServer, endServers, startServer } from './server.ts';

const folder = mkdtempSync(join(tmpdir(), 'kreplay-access-'));
let server: ClickHouseServer;

beforeAll(async () => {
  server = await startServer();
});
afterEach(closeAll);
afterAll(async () => {
  await endServers();
  rmSync(folder, { recursive: true });
});

const connected = (settings: Partial<ConnectionSettings> = {}) => connectedTo(server.url, settings);

function fileWith(name: string, text: string, mode = 0o600): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  chmodSync(path, mode);
  return path;
}

describe('an account', () => {
  const passwordFile = fileWith('password', `${ACCOUNTS.writer}\n`);

  test('is let in with its password, from a file or from the credentials of a service', async () => {
    expect(await rowsOf(connected({ user: 'writer', passwordFile }), one)).toEqual([{ one: 1n }]);
    process.env.CREDENTIALS_DIRECTORY = folder;
    try {
      expect(await rowsOf(connected({ user: 'writer', passwordFile: 'password' }), one)).toEqual([{ one: 1n }]);
    } finally {
      delete process.env.CREDENTIALS_DIRECTORY;
    }
  });

  test.each([
    ['a wrong password', 'writer', 193],
    ['an unknown name', 'somebody', 192],
  ])('is refused with %s, and the message has no password', async (_, user, code) => {
    const password = 'x7-Secret';
    const file = fileWith('wrong', password);
    const error = await errorOf(rowsOf(connected({ user, passwordFile: file }), one));
    expect(error).toMatchObject({ code, meaning: 'blocked', message: expect.stringMatching(/check user, password/) });
    expect(`${error.message}${error.stack}`).not.toContain(password);
  });

  test('that may only read is refused when it writes', async () => {
    const reader = connected({ user: 'reader', passwordFile: fileWith('reader', ACCOUNTS.reader) });
    expect(await rowsOf(reader, one)).toEqual([{ one: 1n }]);
    expect(await errorOf(reader.run(sql`CREATE TABLE no (a UInt8) ENGINE = Memory`))).toMatchObject({
      code: 164,
      meaning: 'blocked',
    });
  });
});

describe('a password file', () => {
  test.each([
    ['is open to others', () => fileWith('open', 'x', 0o640), /open to other users: `chmod 600/],
    ['is not there', () => join(folder, 'none'), /there is no/],
    ['is a folder', () => folder, /is not a file|EISDIR/],
    ['has two lines', () => fileWith('two', 'secret\nX-Header: x\n'), /more than one line/],
    ['is too large', () => fileWith('large', 'x'.repeat(5000)), /too large/],
  ])('that %s is refused, and not quoted', (_, path, message) => {
    const settings = { urls: ['http://127.0.0.1:1'], database: 'default', user: 'x', passwordFile: path() };
    expect(() => connect(settings)).toThrow(message);
    expect(() => connect(settings)).not.toThrow(/secret/);
  });

  test('behind a link is read', () => {
    const link = join(folder, 'link');
    symlinkSync(fileWith('target', 'x'), link);
    expect(() =>
      connect({ urls: ['http://127.0.0.1:1'], database: 'default', user: 'x', passwordFile: link }),
    ).not.toThrow();
  });
});

describe('a URL', () => {
  test.each([
    ['http://db.example:8123', /unencrypted: give https/],
    ['http://10.0.0.1', /unencrypted/],
    ['ftp://127.0.0.1', /not a URL/],
    ['https://user:secret@db.example:8443', /must not contain user or password/],
    ['https://db.example:8443/path', /more than scheme, host and port/],
    ['https://db.example:8443/?user=x', /more than scheme, host and port/],
    ['db.example:8443', /not a URL/],
  ])('%s is refused', (url, message) => {
    expect(() => connect({ urls: [url], database: 'default' })).toThrow(message);
    expect(() => connect({ urls: [url], database: 'default' })).not.toThrow(/secret/);
  });

  test.each(['http://127.0.0.1:8123', 'http://localhost', 'http://[::1]:8123/', 'https://db.example'])(
    '%s is taken',
    (url) => {
      expect(() => connect({ urls: [url], database: 'default' })).not.toThrow();
    },
  );
});

describe('certificates', () => {
  test('that cannot be used are refused before the first statement', () => {
    const authority = newAuthority(folder, 'refusing');
    const client = newCertificate(folder, 'own', authority);
    const other = newCertificate(folder, 'foreign', authority);
    const garbage = fileWith('garbage.pem', '-----BEGIN CERTIFICATE-----\nsecret\n-----END CERTIFICATE-----\n');
    const open = fileWith('open.key', readFileSync(client.key, 'utf8'), 0o640);
    const cases = [
      [{ ca: garbage }, /garbage.pem is no certificate/],
      [{ ca: fileWith('empty.pem', '') }, /empty.pem is no certificate/],
      [{ ca: join(folder, 'none.pem') }, /cannot read .*none.pem: ENOENT/],
      [{ cert: garbage, key: client.key }, /garbage.pem is no certificate/],
      [{ cert: client.cert, key: garbage }, /own.pem with the key .*garbage.pem/],
      [{ cert: client.cert, key: other.key }, /own.pem with the key .*foreign.key: .*mismatch/],
      [{ cert: client.cert, key: open }, /open.key is open to other users: `chmod 600/],
      [{ cert: client.cert, key: folder }, /is not a file/],
    ] as const;
    for (const [tls, message] of cases) {
      const make = () => connect({ urls: ['https://127.0.0.1:1'], database: 'default', tls });
      expect(make).toThrow(UserError);
      expect(make).toThrow(message);
      expect(make).not.toThrow(/secret/);
    }
    expect(() => connectedTo('https://127.0.0.1:1', { tls: { ca: authority.cert, ...client } })).not.toThrow();
  });
});

describe('over TLS', () => {
  test('a server of our authority is trusted, and wants our certificate', async () => {
    const authority = newAuthority(folder);
    const other = newAuthority(folder, 'other');
    const certificate = newCertificate(folder, 'server', authority);
    const client = newCertificate(folder, 'client', authority);
    const secure = await startServer({ tls: { certificate, authority } });
    const urls = [secure.url];
    const own = { ca: authority.cert, ...client };
    expect(await rowsOf(connected({ urls, tls: own }), one)).toEqual([{ one: 1n }]);
    expect(await errorOf(rowsOf(connected({ urls, tls: { ...own, ca: other.cert } }), one))).toMatchObject({
      code: 'unreachable',
      meaning: 'wait',
      message: expect.stringMatching(/cannot be trusted/),
    });
    expect(await errorOf(rowsOf(connected({ urls, tls: { ca: authority.cert } }), one))).toBeInstanceOf(ServerError);
    expect(() => connected({ urls, tls: { ca: authority.cert, cert: client.cert } })).toThrow(/needs its key/);
  });
});
