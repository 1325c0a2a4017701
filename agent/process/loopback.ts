/** Recognises hosts that are this machine, whatever a resolver returns. Only local programs can reach them. */
import { isIP } from 'node:net';

/** Whether `host` is this machine. `host` is written as in a URL, but without brackets. */
export function isLoopback(host: string): boolean {
  if (isIP(host) === 4) return host.startsWith('127.');
  return host === '::1' || host.toLowerCase() === 'localhost';
}
