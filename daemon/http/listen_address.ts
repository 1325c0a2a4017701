/** The address on which the daemon listens, and whether other machines can reach it. */
import { isIP } from 'node:net';
import { UserError } from '../../agent/process/errors.ts';
import { isLoopback } from '../../agent/process/loopback.ts';

export type ListenAddress = { host: string; port: number } | { path: string };

/** The error of a daemon that cannot listen at present: another process has the address, or the host lacks it. */
export class ListenError extends UserError {
  override readonly name = 'ListenError';
}

/**
 * Parses `127.0.0.1:7467`, `[::1]:7467`, `localhost:0`, `unix:/run/kreplay.sock`; returns undefined for anything else.
 */
export function parseListen(text: string): ListenAddress | undefined {
  if (text.startsWith('unix:')) return text.length > 5 ? { path: text.slice(5) } : undefined;
  const match = /^(?:\[([0-9a-f:.]+)\]|([^:[\]/\s]+)):(\d{1,5})$/i.exec(text);
  const port = Number(match?.[3]);
  return match && port <= 65_535 ? { host: (match[1] ?? match[2])!, port } : undefined;
}

/** Whether only programs on this machine can reach the address. */
export function isLocalAddress(address: ListenAddress): boolean {
  return 'path' in address || isLoopback(address.host);
}

/** Formats the address for `--url` of the client commands. */
export function showAddress(address: ListenAddress, scheme: 'http' | 'https'): string {
  if ('path' in address) return `unix:${address.path}`;
  const host = isIP(address.host) === 6 ? `[${address.host}]` : address.host;
  return `${scheme}://${host}:${address.port}`;
}
