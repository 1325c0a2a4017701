/** Where servers are and who we are for them, as an operator set it. */
import { readFileSync } from 'node:fs';
import { UserError } from '../../process/errors.ts';
import { isLoopback } from '../../process/loopback.ts';

export interface ConnectionSettings {
  /** Replicas of one shard: `https://db1.example:8443`. */
  urls: readonly string[];
  database: string;
  user?: string | undefined;
  passwordFile?: string | undefined;
  /** Paths of PEM files. */
  tls?: { ca?: string | undefined; cert?: string | undefined; key?: string | undefined } | undefined;
}

export interface Replica {
  /** Without anything secret. */
  origin: string;
  host: string;
  port: number;
  isTls: boolean;
}

const PORTS = { http: 8123, https: 8443 } as const;

/** Throws a UserError for a URL that cannot be, or must not be, used. */
export function replicaOf(text: string): Replica {
  const url = URL.parse(text);
  const scheme = url?.protocol.slice(0, -1);
  if (!url || (scheme !== 'http' && scheme !== 'https'))
    throw new UserError(`${printed(text)} is not a URL of a ClickHouse server: give https://HOST:PORT`);
  if (url.username || url.password)
    throw new UserError('a URL of a ClickHouse server must not contain user or password: use settings of their own');
  if (url.pathname !== '/' || url.search || url.hash)
    throw new UserError(`${printed(text)} has more than scheme, host and port: give https://HOST:PORT`);
  const host = url.hostname.replace(/^\[|\]$/g, '');
  if (scheme === 'http' && !isLoopback(host))
    throw new UserError(`${printed(text)} would send events and password unencrypted: give https://HOST:PORT`);
  const port = Number(/:(\d+)$/.exec(text.replace(/\/$/, ''))?.[1] ?? PORTS[scheme]);
  return { origin: `${scheme}://${url.hostname}:${port}`, host, port, isTls: scheme === 'https' };
}

/** What a user gave may contain a password. */
function printed(text: string): string {
  return text.replace(/\/\/[^@/]*@/, '//…@').slice(0, 200);
}

export function readTlsFiles({ ca, cert, key }: NonNullable<ConnectionSettings['tls']>): Record<string, Buffer> {
  if ((cert === undefined) !== (key === undefined))
    throw new UserError('a client certificate needs its key, and a key its certificate');
  const files = Object.entries({ ca, cert, key }).filter(([, path]) => path !== undefined);
  return Object.fromEntries(files.map(([name, path]) => [name, readPem(path!)]));
}

function readPem(path: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new UserError(`cannot read ${path}: ${(error as NodeJS.ErrnoException).code}`);
  }
}
