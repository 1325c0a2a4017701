/** Passwords of a fleet's accounts: one file each in a folder, made where it is missing. */
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { readPassword } from '../clickhouse/connection/password.ts';
import { type PasswordHashes, passwordHash, ROLES } from '../clickhouse/tables/accounts.ts';
import { UserError } from '../process/errors.ts';

const PASSWORD_BYTES = 24;

/** Only the hashes leave this file: a server logs statements. Throws a UserError. */
export function passwordHashesIn(folder: string, prefix: string): PasswordHashes {
  return new Map(ROLES.map((role) => [role, passwordHash(passwordOf(join(folder, prefix + role)))]));
}

function passwordOf(path: string): string {
  try {
    if (!existsSync(path)) {
      mkdirSync(join(path, '..'), { recursive: true, mode: 0o700 });
      writeFileSync(path, `${randomBytes(PASSWORD_BYTES).toString('base64url')}\n`, { mode: 0o600, flag: 'wx' });
    }
  } catch (error) {
    throw new UserError(`cannot make ${path}: ${(error as NodeJS.ErrnoException).code}`);
  }
  const password = readPassword(path, {});
  if (password === '') throw new UserError(`${path} is empty: remove it, and it is made again`);
  return password;
}
