/** Identifies the client at the other end of a connection, for limits per client. */
import { isIP } from 'node:net';

const MAPPED = /^::ffff:(?=\d+\.)/i;
/**
 * Number of groups of an IPv6 address that identify a site. A site can use all addresses of its /64 network, so they
 * count as one client.
 */
const IPV6_GROUPS = 4;

/**
 * Returns one text per client: an IPv4 address, the first 64 bits of an IPv6 address, or `unix` for a socket without an
 * address.
 */
export function toClientKey(address: string | undefined): string {
  if (address === undefined) return 'unix';
  const plain = toPlainAddress(address);
  if (isIP(plain) !== 6) return plain;
  const [before = '', after] = plain.split('::');
  const [head, tail] = [before, after ?? ''].map((part) => part.split(':').filter(Boolean));
  const zeros = after === undefined ? 0 : 8 - head!.length - tail!.length;
  const groups = [...head!, ...Array<string>(Math.max(0, zeros)).fill('0'), ...tail!];
  return groups.slice(0, IPV6_GROUPS).join(':');
}

/** Returns the address in plain form: IPv4 instead of an IPv4-mapped IPv6 address, and without a zone. */
export function toPlainAddress(address: string): string {
  return address.replace(MAPPED, '').replace(/%.*$/, '');
}

/** Whether the client is a program on this machine. */
export function isLocalClient(address: string | undefined): boolean {
  if (address === undefined) return true;
  const plain = toPlainAddress(address);
  return plain === '::1' || (isIP(plain) === 4 && plain.startsWith('127.'));
}
