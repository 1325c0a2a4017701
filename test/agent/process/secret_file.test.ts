/** Secrets: each may be a credential that systemd gives to a service; any other file must be closed to other users. */
import { chmodSync, chownSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { pino } from 'pino';
import { ConfigError } from '../../../agent/process/errors.ts';
import { readKey, readPassword } from '../../../agent/process/secret_file.ts';
import { readTls } from '../../../daemon/http/access/tls.ts';
import { createSecret, hashSecret } from '../../../daemon/http/access/token.ts';
import { openTokens } from '../../../daemon/http/access/tokens.ts';
import { openWebhook } from '../../../daemon/watch/webhook.ts';
import { newAuthority, newCertificate } from '../../daemon/certificates.ts';
import { newFolder } from '../../daemon/recorded.ts';

/** systemd gives the service's user access by an ACL, so that the group may read by the mode of the file. */
const CREDENTIAL_MODE = 0o440;

const token = createSecret();
const TOKENS = JSON.stringify({
  version: 1,
  tokens: [
    {
      name: 'ci',
      sha256: hashSecret(token).toString('hex'),
      scopes: ['events:read'],
      created_at: '2026-01-01T00:00:00Z',
      expires_at: null,
    },
  ],
});

const log = pino({ level: 'silent' });
const folder = newFolder();
const certificate = newCertificate(folder, 'own', newAuthority(folder));

const READERS: readonly [what: string, content: string | undefined, read: (path: string) => unknown][] = [
  ['a password', 'secret of a test', (path) => readPassword(path)],
  ['a key', 'key of a test', (path) => readKey(path).toString()],
  [
    'the secret of a webhook',
    'secret of a webhook',
    (path) => openWebhook({ url: new URL('https://hooks.example'), secretFile: path, timeoutMs: 1000 }).origin,
  ],
  ['tokens', TOKENS, (path) => openTokens({ path, nowMs: Date.now, log }).find(token)?.name],
  ['the key of a certificate', undefined, (key) => readTls({ cert: certificate.cert, key }).key?.toString()],
];

let credentials: string;
beforeEach(() => {
  credentials = newFolder();
});
afterEach(() => {
  delete process.env.CREDENTIALS_DIRECTORY;
});

describe.each(READERS)('%s', (what, content, read) => {
  function write(path: string, mode: number): string {
    writeFileSync(path, content ?? readKey(certificate.key));
    chmodSync(path, mode);
    return path;
  }

  test('is read from the credentials of a service, by name and by path', () => {
    const path = write(join(credentials, 'secret'), CREDENTIAL_MODE);
    if (process.geteuid!() === 0) chownSync(path, 65_534, 65_534);
    process.env.CREDENTIALS_DIRECTORY = credentials;
    expect(read(path)).toBeDefined();
    expect(read('secret')).toEqual(read(path));
    expect(read(`${credentials}//secret`)).toEqual(read(path));
  });

  test('that is missing is a wrong configuration', () => {
    process.env.CREDENTIALS_DIRECTORY = credentials;
    expect(() => read(join(credentials, 'none'))).toThrow(ConfigError);
    expect(() => read('none')).toThrow(ConfigError);
  });

  // Debian's group ssl-cert may read the keys of certificates, so the daemon leaves their mode to the administrator.
  if (what === 'the key of a certificate') return;

  test.each([
    ['without credentials', undefined],
    ['outside the folder of the credentials', ''],
    ['below the folder of the credentials', 'folder'],
  ])('that is open to other users is refused %s', (_, below) => {
    if (below !== undefined) process.env.CREDENTIALS_DIRECTORY = credentials;
    const place = below ? join(credentials, below) : newFolder();
    mkdirSync(place, { recursive: true });
    const path = write(join(place, 'secret'), CREDENTIAL_MODE);
    expect(() => read(path)).toThrow(/is open to other users: `chmod 600 /);
    rmSync(path);
  });
});
