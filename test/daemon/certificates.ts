/** Makes a CA and certificates signed by it with openssl, as a user would. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

export interface Certificate {
  cert: string;
  key: string;
}

const KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-noenc', '-days', '2'];

function openssl(...args: string[]): void {
  execFileSync('openssl', args, { stdio: 'pipe' });
}

export function newAuthority(folder: string, name = 'ca'): Certificate {
  const made = { cert: join(folder, `${name}.pem`), key: join(folder, `${name}.key`) };
  openssl('req', '-x509', ...KEY, '-subj', `/CN=${name}`, '-keyout', made.key, '-out', made.cert);
  return made;
}

/** Makes a certificate for this machine, signed by `authority`. */
export function newCertificate(folder: string, name: string, authority: Certificate): Certificate {
  const made = { cert: join(folder, `${name}.pem`), key: join(folder, `${name}.key`) };
  const names = 'subjectAltName=IP:127.0.0.1,DNS:localhost';
  const signer = ['-CA', authority.cert, '-CAkey', authority.key];
  openssl(
    'req',
    '-x509',
    ...KEY,
    ...signer,
    '-subj',
    `/CN=${name}`,
    '-addext',
    names,
    '-addext',
    'basicConstraints=critical,CA:FALSE',
    '-keyout',
    made.key,
    '-out',
    made.cert,
  );
  return made;
}

export function read({ cert, key }: Certificate): { cert: Buffer; key: Buffer } {
  return { cert: readFileSync(cert), key: readFileSync(key) };
}
