/** Reads certificates when the daemon starts, and again on demand. */
import { readFileSync } from 'node:fs';
import { createSecureContext, type SecureContextOptions } from 'node:tls';
import { ConfigError } from '../../../agent/process/errors.ts';
import { findSecretFile } from '../../../agent/process/secret_file.ts';

export interface TlsFiles {
  cert: string;
  key: string;
  /** If set, only clients with a certificate of this CA are served. */
  clientCa?: string | undefined;
}

/**
 * Reads and checks the files. Throws a ConfigError that names the unreadable file, or all files if they do not work
 * together. Error messages never quote a file's content.
 */
export function readTls({ cert, key, clientCa }: TlsFiles): SecureContextOptions {
  const options: SecureContextOptions = {
    minVersion: 'TLSv1.2',
    cert: readPem('--tls-cert', cert),
    key: readPem('--tls-key', key),
    ...(clientCa !== undefined && { ca: readPem('--tls-client-ca', clientCa) }),
  };
  try {
    createSecureContext(options);
  } catch (error) {
    const files = [cert, key, clientCa].filter((file) => file !== undefined).join(', ');
    throw new ConfigError(`cannot use ${files} for TLS: ${(error as NodeJS.ErrnoException).code}`);
  }
  return options;
}

/**
 * Checks that the file is PEM, because OpenSSL ignores a CA file without any certificate and would then reject every
 * client.
 */
function readPem(option: string, path: string): Buffer {
  let pem: Buffer;
  try {
    pem = readFileSync(findSecretFile(path).path);
  } catch (error) {
    throw new ConfigError(`cannot read ${option} ${path}: ${(error as NodeJS.ErrnoException).code}`);
  }
  if (!pem.includes('-----BEGIN ')) throw new ConfigError(`${option} ${path} is not PEM`);
  return pem;
}
