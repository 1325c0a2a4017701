/** HTTP client for the daemon, over TCP or a unix socket. */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { request as tlsRequest } from 'node:https';
import { parseJson, stringify } from '../../base/exact_json.ts';
import { isSecret } from '../../http/access/token.ts';
import { CommandError, RefusedError } from './command_error.ts';

export const DEFAULT_URL = 'http://127.0.0.1:7467';

export const DAEMON_URLS = 'http://HOST:PORT or https://HOST:PORT, with a path if a proxy has one, or unix:/path';

export interface DaemonRequest {
  method?: string;
  /** Path of the request, including the query. */
  path: string;
  accept?: string;
  body?: unknown;
  headers?: Record<string, string>;
  /** Aborting this signal aborts the request and the reading of its answer. */
  signal?: AbortSignal;
}

/** The address of a daemon. `below` is the path at which a proxy serves the daemon, such as `/kreplay`. */
type DaemonAddress = { socketPath: string } | { host: string; port: number; tls: boolean; below: string };

/** Parses the value of `--url`; returns undefined if the value is not a valid address of a daemon. */
export function parseDaemonUrl(text: string): DaemonAddress | undefined {
  if (text.startsWith('unix:')) return text.length > 5 ? { socketPath: text.slice(5) } : undefined;
  const url = URL.parse(text);
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') return undefined;
  if (url.search || url.hash || url.username || url.password) return undefined;
  const tls = url.protocol === 'https:';
  const below = url.pathname.replace(/\/$/, '');
  return { host: url.hostname.replace(/^\[|\]$/g, ''), port: Number(url.port || (tls ? 443 : 80)), tls, below };
}

/**
 * Sends a request. If the answer's status is 2xx, returns the answer, and the caller reads its body. Throws a
 * CommandError in all other cases.
 */
export async function callDaemon(url: string, call: DaemonRequest): Promise<IncomingMessage> {
  const place = parseDaemonUrl(url);
  if (!place) throw new CommandError(`--url or KREPLAY_URL ${url}: must be ${DAEMON_URLS}`);
  const { method = 'GET', path, accept = 'application/json', body, headers, signal } = call;
  const { authorization, readTlsFiles } = readCredentials(process.env);
  const send = 'tls' in place && place.tls ? tlsRequest : request;
  const sent = send({
    ...place,
    ...(send === tlsRequest && readTlsFiles()),
    ...(signal && { signal }),
    method,
    path: 'below' in place ? place.below + path : path,
    headers: {
      accept,
      ...authorization,
      ...(body !== undefined && { 'content-type': 'application/json' }),
      ...headers,
    },
  });
  sent.end(body === undefined ? undefined : stringify(body));
  let res: IncomingMessage;
  try {
    [res] = (await once(sent, 'response')) as [IncomingMessage];
  } catch (error) {
    throw createUnreachableError(url, error as NodeJS.ErrnoException);
  }
  // If the connection is reset in the middle of an answer, both the request and the answer emit an error. The reader of
  // the answer reports it.
  sent.on('error', () => {});
  const { statusCode = 0 } = res;
  if (statusCode >= 200 && statusCode < 300) return res;
  throw await readRefusal(res, statusCode);
}

export async function readText(res: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  try {
    for await (const chunk of res) chunks.push(chunk);
  } catch (error) {
    throw createBrokenOffError(error as Error);
  }
  return Buffer.concat(chunks).toString('utf8');
}

/** Reads the body as JSON. An integer that a double cannot represent exactly becomes a bigint. */
export async function readJson(res: IncomingMessage): Promise<unknown> {
  return parseJson(await readText(res));
}

/** Yields the lines of an answer without their line ends. Leaving the loop early closes the connection. */
export async function* readLines(res: IncomingMessage): AsyncGenerator<string, void> {
  let rest = '';
  res.setEncoding('utf8');
  try {
    for await (const chunk of res) {
      const lines = (rest + chunk).split('\n');
      rest = lines.pop()!;
      yield* lines;
    }
  } catch (error) {
    throw createBrokenOffError(error as Error);
  }
  if (rest !== '') yield rest;
}

/**
 * Converts an error of the connection to advice. For TLS errors, it uses OpenSSL's `reason`, because `message` also
 * contains source locations.
 */
function createUnreachableError(url: string, error: NodeJS.ErrnoException & { reason?: string }): CommandError {
  switch (error.code) {
    case 'ECONNREFUSED':
    case 'ENOENT':
      return new CommandError(
        `no daemon at ${url}: start one with \`kreplay daemon\`, or give its address with --url or KREPLAY_URL`,
      );
    case 'ECONNRESET':
      return new CommandError(
        `the daemon at ${url} closed the connection: it may require https://, or another KREPLAY_CLIENT_CERT`,
      );
    case 'ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED':
      return new CommandError(
        `the daemon at ${url} requires a certificate: set KREPLAY_CLIENT_CERT and KREPLAY_CLIENT_KEY`,
      );
    default:
      return new CommandError(`cannot reach the daemon at ${url}: ${error.reason ?? error.message}`);
  }
}

function createBrokenOffError(error: Error): CommandError {
  return new CommandError(`the daemon's answer broke off: ${error.message}; it is incomplete`);
}

async function readRefusal(res: IncomingMessage, status: number): Promise<RefusedError> {
  const text = await readText(res);
  if (res.headers['content-type']?.startsWith('application/problem+json')) {
    const { code, detail } = parseJson(text) as { code?: unknown; detail?: unknown };
    const hint = code === 'unauthorized' ? '; the commands take it from KREPLAY_TOKEN' : '';
    if (typeof code === 'string' && typeof detail === 'string')
      return new RefusedError(`${detail}${hint} (${code})`, code);
  }
  return new RefusedError(`unexpected answer, status ${status}: is this a kreplay daemon?`);
}

/*
 * Credentials of the client commands. They come from environment variables, because all users of a host can see the
 * arguments of a process.
 */

interface Credentials {
  authorization: { authorization?: string };
  /** Reads the certificate and key files; called only for https. */
  readTlsFiles: () => { ca?: Buffer; cert?: Buffer; key?: Buffer };
}

function readCredentials(environment: NodeJS.ProcessEnv): Credentials {
  const token = environment.KREPLAY_TOKEN;
  if (token && !isSecret(token))
    throw new CommandError('KREPLAY_TOKEN is not a token: `kreplay token create` prints one, it begins with krp_');
  const readFileVariable = (name: string) => {
    const path = environment[name];
    if (!path) return undefined;
    try {
      return readFileSync(path);
    } catch (error) {
      throw new CommandError(`cannot read ${name} ${path}: ${(error as NodeJS.ErrnoException).code}`);
    }
  };
  return {
    authorization: token ? { authorization: `Bearer ${token}` } : {},
    readTlsFiles() {
      const ca = readFileVariable('KREPLAY_CA');
      const cert = readFileVariable('KREPLAY_CLIENT_CERT');
      const key = readFileVariable('KREPLAY_CLIENT_KEY');
      return { ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) };
    },
  };
}
