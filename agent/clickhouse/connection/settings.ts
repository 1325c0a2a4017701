/** The addresses of the servers and the account, as configured by an operator. */
import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createSecureContext, type SecureContext } from 'node:tls';
import { ConfigError } from '../../process/errors.ts';
import { isLoopback } from '../../process/loopback.ts';
import { readKey } from '../../process/secret_file.ts';

export interface ConnectionSettings {
  /** URLs of the replicas of one shard, such as `https://db1.example:8443`. */
  urls: readonly string[];
  database: string;
  user?: string | undefined;
  passwordFile?: string | undefined;
  /** Paths of PEM files. The key file must not be readable by other users. */
  tls?: { ca?: string | undefined; cert?: string | undefined; key?: string | undefined } | undefined;
}

export interface Replica {
  /** URL without secrets, for messages. */
  origin: string;
  host: string;
  port: number;
  isTls: boolean;
}

const PORTS = { http: 8123, https: 8443 } as const;

/** Parses a URL of a replica. Throws a ConfigError if the URL is invalid or not allowed. */
export function parseReplicaUrl(text: string): Replica {
  const url = URL.parse(text);
  const scheme = url?.protocol.slice(0, -1);
  if (!url || (scheme !== 'http' && scheme !== 'https'))
    throw new ConfigError(`${redactUrl(text)} is not a URL of a ClickHouse server: give https://HOST:PORT`);
  if (url.username || url.password)
    throw new ConfigError('a URL of a ClickHouse server must not contain user or password: use settings of their own');
  if (url.pathname !== '/' || url.search || url.hash)
    throw new ConfigError(`${redactUrl(text)} has more than scheme, host and port: give https://HOST:PORT`);
  const host = url.hostname.replace(/^\[|\]$/g, '');
  if (scheme === 'http' && !isLoopback(host))
    throw new ConfigError(`${redactUrl(text)} would send events and password unencrypted: give https://HOST:PORT`);
  const port = Number(/:(\d+)$/.exec(text.replace(/\/$/, ''))?.[1] ?? PORTS[scheme]);
  return { origin: `${scheme}://${url.hostname}:${port}`, host, port, isTls: scheme === 'https' };
}

/** Removes user and password from a URL, so that an error message can show it. */
function redactUrl(text: string): string {
  return text.replace(/\/\/[^@/]*@/, '//…@').slice(0, 200);
}

/**
 * Reads the certificates and the key once; returns undefined if none are configured. Throws a ConfigError if the files
 * are unusable.
 */
export function createTlsContext(tls: NonNullable<ConnectionSettings['tls']>): SecureContext | undefined {
  const { ca, cert, key } = tls;
  if ((cert === undefined) !== (key === undefined))
    throw new ConfigError('a client certificate needs its key, and a key its certificate');
  if (ca === undefined && cert === undefined) return undefined;
  const files = {
    ...(ca !== undefined && { ca: readCertificates(ca) }),
    ...(cert !== undefined && { cert: readCertificates(cert) }),
    ...(key !== undefined && { key: readKey(key) }),
  };
  try {
    return createSecureContext(files);
  } catch (error) {
    // The certificates have been parsed, so only their combination with a key can fail.
    throw new ConfigError(`cannot use ${cert ?? ca} with the key ${key}: ${getErrorReason(error)}`);
  }
}

function readCertificates(path: string): Buffer {
  let pem: Buffer;
  try {
    pem = readFileSync(path);
  } catch (error) {
    throw new ConfigError(`cannot read ${path}: ${(error as NodeJS.ErrnoException).code}`);
  }
  try {
    // The certificate is parsed here, because a TLS context ignores malformed certificates.
    new X509Certificate(pem);
  } catch (error) {
    throw new ConfigError(`${path} is no certificate in PEM: ${getErrorReason(error)}`);
  }
  return pem;
}

function getErrorReason(error: unknown): string {
  const { reason, message } = error as Error & { reason?: string };
  return reason ?? message;
}
