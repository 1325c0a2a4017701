/** Tests the file of tokens, and `kreplay token` next to a running daemon. */

import { once } from 'node:events';
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { pino } from 'pino';
import { createSecret, hashSecret } from '../../../../daemon/http/access/token.ts';
import { openTokens } from '../../../../daemon/http/access/tokens.ts';
import { kreplay, type Running, start } from '../../command_line.ts';
import { hosted, hostedWith } from '../../hosted.ts';
import { newFolder, recorded, START } from '../../recorded.ts';

const running: Running[] = [];
afterEach(async () => {
  for (const { child, ended } of running.splice(0)) {
    child.kill('SIGKILL');
    await ended;
  }
});

let path: string;
beforeEach(() => {
  path = join(newFolder(), 'tokens.json');
});

async function created(name: string, scope: string, ...more: string[]): Promise<string> {
  const { code, stdout, stderr } = await hosted(
    'token',
    'create',
    '--name',
    name,
    '--scope',
    scope,
    '--tokens',
    path,
    ...more,
  );
  expect([code, stderr]).toEqual([0, expect.stringMatching(/only time/)]);
  expect(stdout).toMatch(/^krp_[\w-]{43}\n$/);
  return stdout.trim();
}

async function daemon(...args: string[]): Promise<Running & { url: string }> {
  const one = start('daemon', '--data', recorded([{ at: START }]), '--tokens', path, ...args);
  running.push(one);
  const line = await one.printed(/\n/);
  return { ...one, url: / at (\S+)\n/.exec(line)![1]! };
}

const onLoopback = () => daemon('--listen', '127.0.0.1:0');

async function status(url: string, secret: string): Promise<number> {
  const res = await fetch(`${url}/api/events`, { headers: { authorization: `Bearer ${secret}` } });
  await res.text();
  return res.status;
}

describe('kreplay token', () => {
  test('stores hashes, in a file that only its owner can read', async () => {
    const secret = await created('ci', 'events:read,replay:control', '--expires', '30d');
    expect(statSync(path).mode & 0o777).toBe(0o600);
    expect(readFileSync(path, 'utf8')).not.toContain(secret.slice(4));
    const { stdout } = await hosted('token', 'list', '--tokens', path, '--output', 'json');
    const [token] = JSON.parse(stdout).tokens;
    expect(token).toEqual({
      name: 'ci',
      scopes: ['events:read', 'replay:control'],
      created_at: expect.any(String),
      expires_at: new Date(Date.parse(token.created_at) + 30 * 86_400_000).toISOString(),
      expired: false,
    });
    const table = await hosted('token', 'list', '--tokens', path, '--output', 'table');
    expect(table.stdout).toMatch(/^NAME +SCOPES +CREATED +EXPIRES\nci +events:read replay:control +\S+ +\S+\n$/);
    expect(stdout + table.stdout).not.toContain(hashSecret(secret).toString('hex'));
  });

  test('does not replace a token, and revokes only an existing one', async () => {
    await created('ci', 'events:read');
    const before = readFileSync(path);
    for (const args of [
      ['create', '--name', 'ci', '--scope', 'events:read'],
      ['revoke', 'nobody'],
    ]) {
      const { code, stderr } = await hosted('token', ...args, '--tokens', path);
      expect([code, stderr]).toEqual([1, expect.stringMatching(/^kreplay: there is .+\n$/)]);
    }
    expect(readFileSync(path)).toEqual(before);
    expect(existsSync(`${path}.lock`)).toBe(false);
  });

  test.each([
    'create --name a/b --scope events:read',
    'create --name a --scope events:write',
    'create --name a --scope events:read --expires 0s',
    'create --name a --scope events:read --expires 30',
    'create --name a',
    'create --scope events:read',
    'revoke',
  ])('creates nothing on a usage error: %s', async (usage) => {
    const { code, stdout } = await hosted('token', ...usage.split(' '), '--tokens', path);
    expect([code, stdout, existsSync(path)]).toEqual([2, '', false]);
  });

  test('loses nothing when run concurrently', async () => {
    const names = Array.from({ length: 6 }, (_, i) => `t${i}`);
    const ended = await Promise.all(
      names.map((name) => kreplay('token', 'create', '--name', name, '--scope', 'events:read', '--tokens', path)),
    );
    const made = names.filter((_, i) => ended[i]!.code === 0);
    for (const { code, stderr } of ended) if (code !== 0) expect(stderr).toMatch(/is being changed/);
    expect(made.length).toBeGreaterThan(0);
    expect(
      JSON.parse(readFileSync(path, 'utf8'))
        .tokens.map(({ name }: { name: string }) => name)
        .sort(),
    ).toEqual(made);
  });

  test('changes the target of a link', async () => {
    const target = path;
    await created('a', 'events:read');
    const link = join(newFolder(), 'link');
    symlinkSync(target, link);
    expect((await hosted('token', 'revoke', 'a', '--tokens', link)).code).toBe(0);
    expect(JSON.parse(readFileSync(target, 'utf8')).tokens).toEqual([]);
  });
});

describe('a daemon with tokens', () => {
  test('accepts a new one and refuses a revoked one immediately', async () => {
    const first = await created('first', 'events:read');
    const { url } = await onLoopback();
    expect(await status(url, first)).toBe(200);
    const second = await created('second', 'events:read');
    expect(await status(url, second)).toBe(200);
    expect((await hosted('token', 'revoke', 'first', '--tokens', path)).code).toBe(0);
    expect(await status(url, first)).toBe(401);
    expect(await status(url, second)).toBe(200);
  });

  test('is queried with KREPLAY_TOKEN', async () => {
    const secret = await created('me', 'events:read');
    const { url } = await onLoopback();
    const asked = (KREPLAY_TOKEN: string) => hostedWith({ KREPLAY_TOKEN }, 'events', '--url', url);
    expect((await asked(secret)).code).toBe(0);
    const none = await asked('');
    expect([none.code, none.stderr]).toEqual([1, expect.stringMatching(/KREPLAY_TOKEN \(unauthorized\)\n$/)]);
    const mistaken = await asked('hunter2\n');
    expect([mistaken.code, mistaken.stderr]).toEqual([
      1,
      expect.stringMatching(/^kreplay: KREPLAY_TOKEN is not a token/),
    ]);
    expect(mistaken.stderr).not.toContain('hunter2');
    const pin = await hostedWith({ KREPLAY_TOKEN: secret }, 'pin', 'tx', '--url', url);
    expect([pin.code, pin.stderr]).toEqual([1, expect.stringMatching(/replay:control \(forbidden\)\n$/)]);
  });

  test('requires them on a Unix socket too', async () => {
    const secret = await created('me', 'events:read');
    const socketPath = join(newFolder(), 'socket');
    const { url } = await daemon('--listen', `unix:${socketPath}`);
    expect(url).toBe(`unix:${socketPath}`);
    expect((await hostedWith({ KREPLAY_TOKEN: secret }, 'events', '--url', url)).code).toBe(0);
    expect((await hosted('events', '--url', url)).stderr).toMatch(/\(unauthorized\)\n$/);
    const probe = request({ socketPath, path: '/healthz' });
    probe.end();
    const [res] = await once(probe, 'response');
    expect(res.statusCode).toBe(200);
    res.resume();
  });

  test('reports what is wrong with a changed file, and continues with the tokens it knew', async () => {
    const secret = await created('me', 'events:read');
    const { url, child, logged } = await onLoopback();
    writeFileSync(path, 'no tokens');
    child.kill('SIGHUP');
    const log = await logged(/tokens stay as they were/);
    expect(JSON.parse(log.trim().split('\n').at(-1)!)).toMatchObject({ reason: `${path} is not JSON` });
    expect(await status(url, secret)).toBe(200);
    writeFileSync(path, '{"version":1,"tokens":[]}');
    expect(await status(url, secret)).toBe(401);
  });

  test.each(['0.0.0.0:0', '[::]:0'])(
    'listens on %s only with TLS, or with the option for a proxy that provides it',
    async (listen) => {
      const secret = await created('me', 'events:read');
      const refused = await hosted('daemon', '--listen', listen, '--tokens', path);
      expect([refused.code, refused.stdout]).toEqual([2, '']);
      expect(refused.stderr).toMatch(/^kreplay: refusing to listen on http:.*--tls-cert.*--insecure-http.*\n$/);
      const { url } = await daemon('--listen', listen, '--insecure-http');
      const { port } = new URL(url);
      expect(await status(`http://127.0.0.1:${port}`, secret)).toBe(200);
      expect(await status(`http://127.0.0.1:${port}`, createSecret())).toBe(401);
    },
  );

  test('does not start with --insecure-http alone, or without its file', async () => {
    const bare = await hosted('daemon', '--listen', '0.0.0.0:0', '--insecure-http');
    expect([bare.code, bare.stderr]).toEqual([2, expect.stringMatching(/without tokens.*kreplay token create.*\n$/)]);
    const missing = await hosted('daemon', '--listen', '127.0.0.1:0', '--tokens', path);
    expect([missing.code, missing.stderr]).toEqual([
      2,
      expect.stringMatching(/^kreplay: there is no .*kreplay token create.*\n$/),
    ]);
  });
});

const token = {
  name: 'a',
  sha256: '0'.repeat(64),
  scopes: ['events:read'],
  created_at: '2026-01-01T00:00:00Z',
  expires_at: null,
};
const fileOf = (...tokens: object[]) => JSON.stringify({ version: 1, tokens });

describe('an unusable file', () => {
  const secret = createSecret();
  const good = fileOf({ ...token, sha256: hashSecret(secret).toString('hex') });

  function inItsPlace(make: (at: string) => void): void {
    rmSync(path);
    make(path);
  }

  const BROKEN: [name: string, breakIt: () => void, reason: RegExp][] = [
    ['an empty file', () => writeFileSync(path, ''), /is not JSON$/],
    ['a truncated file', () => writeFileSync(path, good.slice(0, -9)), /is not JSON$/],
    ['another version', () => writeFileSync(path, good.replace('1', '2')), /not a list of tokens: \w+ at \/version$/],
    ['an unknown scope', () => writeFileSync(path, good.replace('events:read', 'all')), /at \/tokens\/0\/scopes\/0$/],
    ['an unknown field', () => writeFileSync(path, fileOf({ ...token, admin: true })), /at \/tokens\/0$/],
    ['no scope', () => writeFileSync(path, fileOf({ ...token, scopes: [] })), /at \/tokens\/0\/scopes$/],
    ['a short hash', () => writeFileSync(path, fileOf({ ...token, sha256: '00' })), /at \/tokens\/0\/sha256$/],
    [
      'an invalid time',
      () => writeFileSync(path, fileOf({ ...token, expires_at: 'soon' })),
      /at \/tokens\/0\/expires_at$/,
    ],
    [
      'a duplicate name',
      () => writeFileSync(path, fileOf(token, { ...token, sha256: '1'.repeat(64) })),
      /has a token twice$/,
    ],
    ['a duplicate hash', () => writeFileSync(path, fileOf(token, { ...token, name: 'b' })), /has a token twice$/],
    ['a file that is too large', () => writeFileSync(path, ' '.repeat(2 ** 20 + 1)), /too large/],
    ['others may read it', () => chmodSync(path, 0o640), /chmod 600/],
    ['others may write it', () => chmodSync(path, 0o602), /chmod 600/],
    ['another user owns it', () => chownSync(path, 65_534, 65_534), /belongs to another user$/],
    ['a missing file', () => rmSync(path), /there is no .*kreplay token create/],
    ['a folder', () => inItsPlace(mkdirSync), /is not a file$/],
    ['a link to itself', () => inItsPlace((at) => symlinkSync(at, at)), /ELOOP$/],
  ];

  test.each(BROKEN)('%s: refused at the start', (_name, breakIt, reason) => {
    writeFileSync(path, good, { mode: 0o600 });
    breakIt();
    const log = pino({ level: 'silent' });
    expect(() => openTokens({ path, nowMs: Date.now, log })).toThrow(reason);
  });

  test.each(BROKEN)('%s: afterwards logged as one line without any change', (_name, breakIt, reason) => {
    writeFileSync(path, good, { mode: 0o600 });
    const lines: { level: number; reason: string }[] = [];
    const log = pino({ level: 'warn' }, { write: (line) => void lines.push(JSON.parse(line)) });
    const tokens = openTokens({ path, nowMs: Date.now, log });
    breakIt();
    for (let i = 0; i < 3; i++) expect(tokens.find(secret)?.name).toBe('a');
    expect(lines.map((line) => [line.level, line.reason])).toEqual([[50, expect.stringMatching(reason)]]);
    rmSync(path, { recursive: true, force: true });
    writeFileSync(`${path}.new`, fileOf(), { mode: 0o600 });
    renameSync(`${path}.new`, path);
    expect(tokens.find(secret)).toBeUndefined();
  });
});
