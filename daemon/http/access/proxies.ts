/**
 * Reverse proxies in front of the daemon: which proxies are trusted, and what they report about their clients in
 * `X-Forwarded-For`, `-Proto` and `-Host` or in `Forwarded` (RFC 7239). Any client can send these headers, so they
 * count only if the operator has named the address from which they come.
 */
import { BlockList, isIP } from 'node:net';
import type { Request } from 'express';
import { toPlainAddress } from './client_address.ts';

/** The client of a request, and the address of the daemon that the client used. */
export interface Asker {
  /** Undefined for a client of a unix socket. */
  address: string | undefined;
  scheme: string;
  host: string | undefined;
}

export interface Proxies {
  /** `address` is undefined for a client of a unix socket. */
  isTrusted(address: string | undefined): boolean;
  findAsker(req: Request): Asker;
}

/** Value of `--trusted-proxy` that trusts the programs that connect to the unix socket. */
const UNIX = 'unix';
const ADDRESS_BITS = new Map([
  [4, 32],
  [6, 128],
]);

/** Whether the text is `unix`, an address, or a subnet such as 10.0.0.0/8. A subnet of all addresses is refused. */
export function isProxyAddress(text: string): boolean {
  if (text === UNIX) return true;
  const [address, bits, more] = text.split('/');
  const bitsMax = ADDRESS_BITS.get(isIP(address!));
  if (bitsMax === undefined || more !== undefined) return false;
  return bits === undefined || (/^[1-9]\d{0,2}$/.test(bits) && Number(bits) <= bitsMax);
}

export function createProxies(trusted: readonly string[] = []): Proxies {
  const addresses = new BlockList();
  for (const text of trusted) {
    if (text === UNIX) continue;
    const [address, bits] = text.split('/');
    const family = toAddressFamily(address!);
    if (bits === undefined) addresses.addAddress(address!, family);
    else addresses.addSubnet(address!, Number(bits), family);
  }
  const isUnixTrusted = trusted.includes(UNIX);
  const isTrusted = (address: string | undefined) => {
    if (address === undefined) return isUnixTrusted;
    const plain = toPlainAddress(address);
    return isIP(plain) !== 0 && addresses.check(plain, toAddressFamily(plain));
  };

  return {
    isTrusted,
    findAsker(req) {
      const { remoteAddress } = req.socket;
      const asker = { address: remoteAddress, scheme: req.protocol, host: readHost(req) };
      if (!isTrusted(remoteAddress)) return asker;
      const { clients, scheme, host } = readForwarded(req);
      // Each proxy appends the address that it saw. A client can forge all addresses before the last untrusted address.
      for (const address of clients.toReversed()) {
        if (isIP(address) === 0) break;
        asker.address = address;
        if (!isTrusted(address)) break;
      }
      if (scheme === 'http' || scheme === 'https') asker.scheme = scheme;
      return { ...asker, host: host || asker.host };
    },
  };
}

/** Headers by which a proxy indicates that it forwards a request. */
const PASSED_ON = /^(x-forwarded(-.+)?|forwarded|via|x-real-ip|x-client-ip|true-client-ip|cf-connecting-ip)$/;

/**
 * Whether the request shows that a proxy forwarded it. A request in HTTP/1.0 also counts as forwarded, because nginx
 * may use HTTP/1.0 and send none of these headers.
 */
export function isPassedOn(req: Request): boolean {
  return req.httpVersion === '1.0' || Object.keys(req.headers).some((name) => PASSED_ON.test(name));
}

/** Returns the host of a request. An absolute-form request target overrides the Host header (RFC 9112, 3.2.2). */
export function readHost(req: Request): string | undefined {
  return URL.parse(req.url)?.host ?? req.headers.host;
}

const toAddressFamily = (address: string) => (isIP(address) === 6 ? 'ipv6' : 'ipv4');

interface Forwarded {
  clients: string[];
  scheme?: string | undefined;
  host?: string | undefined;
}

/**
 * Reads the headers of a trusted proxy. A proxy that writes one kind of header forwards the other kind from its client
 * unchanged, so if both kinds are present, neither counts.
 */
function readForwarded({ headers }: Request): Forwarded {
  const getHeader = (name: string) => headers[name] as string | undefined;
  const [by, proto, host] = ['for', 'proto', 'host'].map((name) => getHeader(`x-forwarded-${name}`));
  const isSaid = by !== undefined || proto !== undefined || host !== undefined;
  const elements = parseForwarded(headers.forwarded);
  if (isSaid && elements.length > 0) return { clients: [] };
  if (isSaid)
    return { clients: splitList(by).map(removePort), scheme: splitList(proto).at(-1), host: splitList(host).at(-1) };
  const last = elements.at(-1);
  const clients = elements.map((element) => removePort(element.get('for') ?? ''));
  return { clients, scheme: last?.get('proto'), host: last?.get('host') };
}

const splitList = (text: string | undefined) => text?.split(',').map((one) => one.trim()) ?? [];

const PAIR = /^\s*([\w-]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s",;]*))\s*$/;

/** Returns the elements of `Forwarded`, each with its parameters. A malformed element has no parameters. */
function parseForwarded(text: string | undefined): Map<string, string>[] {
  return splitUnquoted(text ?? '', ',').map((element) => {
    const pairs = splitUnquoted(element, ';').map((pair) => PAIR.exec(pair));
    if (pairs.includes(null)) return new Map();
    return new Map(pairs.map((pair) => [pair![1]!.toLowerCase(), pair![2]?.replace(/\\(.)/g, '$1') ?? pair![3]!]));
  });
}

/** Splits the text at separators that are outside quotes. */
function splitUnquoted(text: string, separator: ',' | ';'): string[] {
  const parts = text.match(separator === ',' ? /(?:[^,"]|"(?:[^"\\]|\\.)*"?)+/g : /(?:[^;"]|"(?:[^"\\]|\\.)*"?)+/g);
  return parts ?? [];
}

/** Removes the client's port, as in `192.0.2.1:4711` and `[2001:db8::1]:4711`. */
function removePort(text: string): string {
  const [, bracketed, plain] = /^(?:\[([^\]]*)\]|([^:]*))(?::\d+)?$/.exec(text) ?? [];
  return bracketed ?? plain ?? text;
}
