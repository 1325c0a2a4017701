/**
 * Credentials of the client commands. They come from the environment, because all users of a host can read arguments.
 */
import { readFileSync } from 'node:fs';
import { isSecret } from '../../http/access/token.ts';
import { CommandError } from './command_error.ts';

export interface Credentials {
  authorization: { authorization?: string };
  /** Reads the files only if they are needed. */
  tls: () => { ca?: Buffer; cert?: Buffer; key?: Buffer };
}

export function credentialsOf(environment: NodeJS.ProcessEnv): Credentials {
  const token = environment.KREPLAY_TOKEN;
  if (token && !isSecret(token))
    throw new CommandError('KREPLAY_TOKEN is not a token: `kreplay token create` prints one, it begins with krp_');
  const file = (name: string) => {
    const path = environment[name];
    if (!path) return undefined;
    try {
      return readFileSync(path);
    } catch (error) {
      throw new CommandError(`cannot read ${name} ${path}: ${(error as NodeJS.ErrnoException).code}`);
    }
  };
  return {
    authorization: token ? { authorization: `Bearer ${token}` } : {},
    tls() {
      const [ca, cert, key] = [file('KREPLAY_CA'), file('KREPLAY_CLIENT_CERT'), file('KREPLAY_CLIENT_KEY')];
      return { ...(ca && { ca }), ...(cert && { cert }), ...(key && { key }) };
    },
  };
}
