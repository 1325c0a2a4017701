/**
 * Sends deliveries to a webhook, signed as Standard Webhooks specifies: an HMAC-SHA256 over the delivery's id, the time
 * and the body. A time limit ends each attempt, even if the receiver never answers.
 */
import { createHmac } from 'node:crypto';
import { readFileSync, statSync } from 'node:fs';
import { request } from 'node:http';
import { request as tlsRequest } from 'node:https';
import { ConfigError } from '../../agent/process/errors.ts';
import { readSecretFile } from '../../agent/process/secret_file.ts';
import type { Webhook } from './rules.ts';

const SECRET_BYTES_MIN = 16;
const SECRET_BYTES_MAX = 4096;
const FILE_BYTES_MAX = 1024 * 1024;

export interface OpenWebhook {
  /** The URL's origin, for logs. The URL's path is not logged, because it may contain a secret. */
  origin: string;
  /**
   * Resolves to undefined if the receiver accepted the delivery, otherwise to the reason of the failure. Never rejects.
   */
  send(delivery: { id: string; body: string; nowMs: number; signal: AbortSignal }): Promise<string | undefined>;
}

/** Reads the secret file and the CA file of a webhook. Throws a ConfigError if a file is not usable. */
export function openWebhook({ url, secretFile, caFile, timeoutMs }: Webhook): OpenWebhook {
  const secret = secretFile === undefined ? undefined : readSecret(secretFile);
  const ca = caFile === undefined ? undefined : readCertificates(caFile);
  const isTls = url.protocol === 'https:';
  return {
    origin: url.origin,
    async send({ id, body, nowMs, signal }) {
      const timestamp = Math.floor(nowMs / 1000);
      const headers = {
        'content-type': 'application/json',
        'content-length': Buffer.byteLength(body),
        'user-agent': 'kreplay',
        'webhook-id': id,
        'webhook-timestamp': timestamp,
        ...(secret && { 'webhook-signature': sign(secret, id, timestamp, body) }),
        connection: 'close',
      };
      const limit = AbortSignal.timeout(timeoutMs);
      const options = { method: 'POST', headers, agent: false as const, signal: AbortSignal.any([signal, limit]) };
      try {
        return await exchange(() => (isTls ? tlsRequest(url, { ...options, ca }) : request(url, options)), body);
      } catch (error) {
        if (limit.aborted) return `no answer within ${timeoutMs} ms`;
        const { code, message } = error as NodeJS.ErrnoException;
        return code ?? message;
      }
    },
  };
}

export function sign(secret: Buffer, id: string, timestamp_s: number, body: string): string {
  return `v1,${createHmac('sha256', secret).update(`${id}.${timestamp_s}.${body}`).digest('base64')}`;
}

/**
 * Sends a request. Only the status of the response counts, so its body is not read. Redirects are not followed, because
 * they would send recorded data to an address that no administrator has configured.
 */
function exchange(open: () => ReturnType<typeof request>, body: string): Promise<string | undefined> {
  const { promise, resolve, reject } = Promise.withResolvers<string | undefined>();
  const sent = open();
  sent.on('error', reject);
  sent.on('response', ({ statusCode: status = 0 }) => {
    resolve(status >= 200 && status < 300 ? undefined : describeStatus(status));
    sent.destroy();
  });
  sent.on('close', () => reject(new Error('the connection was closed without an answer')));
  sent.end(body);
  return promise;
}

function describeStatus(status: number): string {
  return `status ${status}${status >= 300 && status < 400 ? ', and redirects are not followed' : ''}`;
}

/**
 * Parses a secret: `whsec_` and a key in base64, or any other text, which is the key itself. Returns undefined if the
 * key is too short or too long.
 */
export function parseSecret(text: string): Buffer | undefined {
  const [, encoded] = /^whsec_([A-Za-z0-9+/]+=*)$/.exec(text) ?? [];
  const secret = encoded === undefined ? Buffer.from(text) : Buffer.from(encoded, 'base64');
  return secret.length >= SECRET_BYTES_MIN && secret.length <= SECRET_BYTES_MAX ? secret : undefined;
}

function readSecret(path: string): Buffer {
  // The owner may be any user: root checks the configuration, and the file belongs to the service's user.
  const kind = { what: 'a secret', bytesMax: FILE_BYTES_MAX, isOwner: () => true };
  const text = runWithFileErrors('secret', () => readSecretFile(path, kind))
    .toString('utf8')
    .trim();
  const secret = parseSecret(text);
  if (secret) return secret;
  throw new ConfigError(
    `the webhook's secret ${path} must have from ${SECRET_BYTES_MIN} to ${SECRET_BYTES_MAX} bytes: \`head -c 32 /dev/urandom | base64 > ${path}\` makes one`,
  );
}

function readCertificates(path: string): Buffer {
  return runWithFileErrors('certificate', () => {
    if (statSync(path).size > FILE_BYTES_MAX) throw new Error(`${path} is too large`);
    return readFileSync(path);
  });
}

function runWithFileErrors<Result>(what: string, read: () => Result): Result {
  try {
    return read();
  } catch (error) {
    throw new ConfigError(`the webhook's ${what} cannot be read: ${(error as Error).message}`);
  }
}

const BACKOFF_MS_MIN = 1000;
const BACKOFF_MS_MAX = 300_000;

/**
 * Returns how long to wait after `attempts` failures: a time that doubles with each failure up to a maximum, plus a
 * random addition of up to half of it.
 */
export function computeBackoffMs(attempts: number, random: () => number = Math.random): number {
  const ms = Math.min(BACKOFF_MS_MAX, BACKOFF_MS_MIN * 2 ** Math.min(attempts, 20));
  return Math.round(ms * (1 + random() / 2));
}
