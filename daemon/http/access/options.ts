/** Options of `kreplay daemon` for access control and limits. */
import type { Command } from 'commander';
import { z } from 'zod';
import { Setting } from '../../../agent/config/setting.ts';
import { DURATION, POSITIVE_INTEGER } from '../../../agent/config/values.ts';
import { isLocalAddress, type ListenAddress, showAddress } from '../listen_address.ts';
import { isOrigin } from './cors.ts';
import { isProxyAddress } from './proxies.ts';
import { QUERY_TIMEOUT_MS_DEFAULT, SCANS_MAX_DEFAULT } from './scan_gate.ts';
import { describeTokenCreation } from './token_file.ts';

export interface AccessFlags {
  tokens?: string;
  tlsCert?: string;
  tlsKey?: string;
  tlsClientCa?: string;
  insecureHttp?: true;
  trustedProxy?: string[];
  openMetrics?: true;
  corsOrigin?: string[];
  maxScans: number;
  queryTimeout: number;
}

/** The longest delay of a Node timer. */
const TIMEOUT_MS_MAX = 2 ** 31 - 1;
const TIMEOUT_RANGE = 'must be at least 1ms, and at most 24d';

const TIMEOUT_MS = DURATION.transform((ns) => Number(ns) / 1e6).pipe(
  z.number().min(1, TIMEOUT_RANGE).max(TIMEOUT_MS_MAX, TIMEOUT_RANGE),
);

const ORIGIN = z.string().refine(isOrigin, 'must be as browsers send it: https://HOST or http://HOST:PORT, no path');
const PROXY = z
  .string()
  .refine(isProxyAddress, 'must be an IP address, several as 10.0.0.0/8, or unix for clients of the unix socket');

export function addAccessOptions(command: Command): Command {
  return command
    .addOption(
      new Setting(
        '--tokens <file>',
        'file with the tokens that clients must present: see `kreplay token`; read again when it changes',
      ),
    )
    .addOption(
      new Setting(
        '--tls-cert <file>',
        'serve HTTPS with this certificate chain (PEM); read again at SIGHUP, as are the next two',
      ),
    )
    .addOption(new Setting('--tls-key <file>', 'private key of the certificate (PEM)'))
    .addOption(new Setting('--tls-client-ca <file>', 'serve only clients with a certificate of this CA (PEM)'))
    .addOption(
      new Setting(
        '--insecure-http',
        'allow plain HTTP beyond this machine: something else, such as a proxy, must encrypt the tokens',
      ),
    )
    .addOption(
      new Setting(
        '--trusted-proxy <address...>',
        'proxies that are believed about their clients: IP addresses, 10.0.0.0/8, or unix for the unix socket',
      ).takes(PROXY),
    )
    .addOption(
      new Setting(
        '--open-metrics',
        'with --tokens: let programs of this machine read /metrics and /readyz without one',
      ),
    )
    .addOption(
      new Setting(
        '--cors-origin <origin...>',
        'sites whose pages may use the daemon, such as https://grafana.example',
      ).takes(ORIGIN),
    )
    .addOption(
      new Setting('--max-scans <count>', 'maximum number of concurrent queries; others wait, for 2 s at most')
        .takes(POSITIVE_INTEGER)
        .default(SCANS_MAX_DEFAULT),
    )
    .addOption(
      new Setting('--query-timeout <duration>', 'time limit for a page of events, or for the next event of a stream')
        .takes(TIMEOUT_MS)
        .default(QUERY_TIMEOUT_MS_DEFAULT, `${QUERY_TIMEOUT_MS_DEFAULT / 1000}s`),
    );
}

/** Returns an error message for options that contradict each other. */
export function findOptionConflict(flags: AccessFlags & { listen: ListenAddress }): string | undefined {
  const { listen, tlsCert, tlsKey, tlsClientCa } = flags;
  if ((tlsCert === undefined) !== (tlsKey === undefined)) return '--tls-cert and --tls-key go together';
  if (tlsClientCa !== undefined && tlsCert === undefined) return '--tls-client-ca needs --tls-cert and --tls-key';
  if (tlsCert !== undefined && 'path' in listen) return '--tls-cert is for HOST:PORT, not for a unix socket';
  return undefined;
}

/** The settings that decide whether clients on other machines may connect to the address. */
export interface AddressProtection {
  /** Whether clients must present a token. */
  hasTokens: boolean;
  isTls: boolean;
  /** Permits tokens over plain HTTP from other machines. */
  isInsecureAllowed: boolean;
}

/** Returns the protection that the options configure. */
export function describeProtection(flags: Partial<AccessFlags>): AddressProtection {
  const { tokens, tlsCert, insecureHttp } = flags;
  return { hasTokens: tokens !== undefined, isTls: tlsCert !== undefined, isInsecureAllowed: insecureHttp === true };
}

/**
 * Returns why nothing may listen on the address; undefined if it may. A client of the daemon can read the activity of
 * this host, so remote access requires tokens, and tokens require encryption.
 */
export function findMissingProtection(
  address: ListenAddress,
  { hasTokens, isTls, isInsecureAllowed }: AddressProtection,
): string | undefined {
  if (isLocalAddress(address)) return undefined;
  const where = showAddress(address, isTls ? 'https' : 'http');
  if (!hasTokens)
    return `refusing to listen on ${where} without tokens: use 127.0.0.1, [::1] or unix:/path, or give --tokens FILE: ${describeTokenCreation()}`;
  if (isTls || isInsecureAllowed) return undefined;
  return `refusing to listen on ${where}: tokens would go over the network for all to read; give --tls-cert and --tls-key, or --insecure-http if something else hides them`;
}
