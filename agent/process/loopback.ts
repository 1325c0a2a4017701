/** Recognizes hosts that are this machine whatever a resolver says: only local programs can reach them. */
import { isIP } from 'node:net';

/** `host` is as in a URL, without brackets. */
export function isLoopback(host: string): boolean {
  if (isIP(host) === 4) return host.startsWith('127.');
  return host === '::1' || host.toLowerCase() === 'localhost';
}
