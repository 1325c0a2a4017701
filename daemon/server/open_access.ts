/** Creates everything that a running daemon needs for access control, from its options. */
import type { Server } from 'node:http';
import type { Server as TlsServer } from 'node:https';
import type { Logger } from 'pino';
import type { AccessOptions } from '../http/access/access.ts';
import { type BearerCheck, createBearerCheck } from '../http/access/bearer.ts';
import type { AccessFlags } from '../http/access/options.ts';
import { createProxies } from '../http/access/proxies.ts';
import { createScanGate, type ScanGate } from '../http/access/scan_gate.ts';
import { readTls, type TlsFiles } from '../http/access/tls.ts';
import { openTokens } from '../http/access/tokens.ts';
import type { Unsent } from '../http/access/unsent.ts';
import { ListenError } from '../http/listen_address.ts';
import type { ListenOptions } from './server.ts';

/** How long a stream may outlive its token, at most. */
const CUT_INTERVAL_MS = 1_000;

export interface OpenedAccess {
  allowed: AccessOptions;
  scanGate: ScanGate;
  listening: ListenOptions;
  /** Reloads files on SIGHUP; the returned function ends that. */
  started(server: Server): () => void;
}

export function openAccess(flags: AccessFlags, log: Logger, unsent: Unsent): OpenedAccess {
  const nowMs = () => performance.now();
  const files = tlsFiles(flags);
  const tokens = flags.tokens === undefined ? undefined : openTokens({ path: flags.tokens, nowMs: Date.now, log });
  const proxies = createProxies(flags.trustedProxy);
  const bearer = tokens && createBearerCheck({ tokens, nowMs, log, proxies });
  const openMetrics = flags.openMetrics === true;
  return {
    allowed: { ...(bearer && { bearer }), origins: new Set(flags.corsOrigin), proxies, openMetrics },
    scanGate: createScanGate({ scansMax: flags.maxScans, queryTimeoutMs: flags.queryTimeout, unsent, nowMs }),
    listening: {
      tls: files && readTls(files),
      tokens: tokens !== undefined,
      insecureHttp: flags.insecureHttp === true,
      isProxy: proxies.isTrusted,
      unsent,
    },
    started(server) {
      const reload = () => {
        tokens?.reload();
        if (files) reloadTls(server as TlsServer, files, log);
      };
      process.on('SIGHUP', reload);
      const stopCutting = bearer ? cutOften(bearer) : () => {};
      return () => {
        process.off('SIGHUP', reload);
        stopCutting();
      };
    },
  };
}

function tlsFiles({ tlsCert: cert, tlsKey: key, tlsClientCa: clientCa }: AccessFlags): TlsFiles | undefined {
  return cert === undefined || key === undefined ? undefined : { cert, key, clientCa };
}

function cutOften({ answers }: BearerCheck): () => void {
  const timer = setInterval(answers.cut, CUT_INTERVAL_MS).unref();
  return () => clearInterval(timer);
}

/** Open connections keep the certificate with which they were established. */
function reloadTls(server: TlsServer, files: TlsFiles, log: Logger): void {
  try {
    server.setSecureContext(readTls(files));
    log.info({ cert: files.cert }, 'certificates were read again');
  } catch (error) {
    if (!(error instanceof ListenError)) throw error;
    log.error({ reason: error.message }, 'certificates stay as they were');
  }
}
