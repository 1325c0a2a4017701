/** Checks how long the certificates between a shipper and its servers are valid. */
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { connect } from 'node:tls';
import {
  type ConnectionSettings,
  type Replica,
  replicaOf,
  secureContextOf,
} from '../clickhouse/connection/settings.ts';
import { counted } from '../output/amounts.ts';
import { UserError } from '../process/errors.ts';
import type { Check } from './check.ts';

const CONNECT_MS_MAX = 5_000;
const DAYS_MIN = 14;
const MS_A_DAY = 86_400_000;

/** There is none without TLS. Whether a server is trusted is seen when it is asked something. */
export async function certificates(settings: ConnectionSettings): Promise<Check[]> {
  const found: { of: string; days: number }[] = [];
  const problems: string[] = [];
  const ends: [string, () => Promise<Date> | Date][] = [
    ...settings.urls
      .map(replicaOf)
      .filter(({ isTls }) => isTls)
      .map((replica) => [replica.origin, () => endAt(replica, settings)] as [string, () => Promise<Date>]),
    ...[settings.tls?.cert, settings.tls?.ca]
      .filter((path) => path !== undefined)
      .map((path) => [path, () => endOf(readFileSync(path))] as [string, () => Date]),
  ];
  for (const [of, end] of ends) {
    try {
      found.push({ of, days: (Number(await end()) - Date.now()) / MS_A_DAY });
    } catch (error) {
      problems.push(`${of}: ${(error as NodeJS.ErrnoException).code ?? (error as Error).message}`);
    }
  }
  return ends.length === 0 ? [] : [checkOf(found, problems)];
}

function checkOf(found: readonly { of: string; days: number }[], problems: readonly string[]): Check {
  const name = 'ship certificate';
  const text = [...found.map(({ of, days }) => `${of}: ${lasting(days)}`), ...problems].join('; ');
  const soonest = Math.min(...found.map(({ days }) => days));
  const facts = found.length > 0 ? { facts: { days_left: Math.floor(soonest) } } : {};
  if (problems.length > 0) return { name, state: 'warning', text, ...facts };
  if (soonest >= DAYS_MIN) return { name, state: 'ok', text, ...facts };
  return { name, state: 'warning', text, advice: 'renew it: shipping waits when it has expired', ...facts };
}

function lasting(days: number): string {
  const whole = Math.floor(days);
  return whole < 0 ? 'has expired' : `${counted(whole, 'day')} left`;
}

const endOf = (pem: Buffer): Date => new Date(new X509Certificate(pem).validTo);

/** Also that of a server which is not trusted. */
async function endAt({ host, port }: Replica, settings: ConnectionSettings): Promise<Date> {
  const secureContext = settings.tls && secureContextOf(settings.tls);
  const socket = connect({ host, port, rejectUnauthorized: false, ...(secureContext && { secureContext }) });
  socket.on('error', () => {});
  const timer = setTimeout(() => socket.destroy(new UserError('no answer')), CONNECT_MS_MAX);
  try {
    await once(socket, 'secureConnect');
    return new Date(socket.getPeerCertificate().valid_to);
  } finally {
    clearTimeout(timer);
    socket.destroy();
  }
}
