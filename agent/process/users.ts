/** Finds users of this host by their names in /etc/passwd. */
import { readFileSync } from 'node:fs';

/**
 * Returns the ids of users that are given by name or number. A name that the host does not have is reported and left
 * out, because the service that runs as this user may be installed later.
 */
export function findUsers(
  names: readonly string[],
  onProblem: (message: string) => void,
  path = '/etc/passwd',
): number[] {
  const ids = names.some((name) => !isNumber(name)) ? readUsers(path, onProblem) : new Map<string, number>();
  return names.flatMap((name) => {
    if (isNumber(name)) return [Number(name)];
    const id = ids.get(name);
    if (id === undefined)
      onProblem(`${path} has no user ${name}: give the user's number if the host knows it otherwise`);
    return id === undefined ? [] : [id];
  });
}

const isNumber = (name: string) => /^\d{1,10}$/.test(name);

function readUsers(path: string, onProblem: (message: string) => void): Map<string, number> {
  let text = '';
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    onProblem(`the users of this host cannot be read: ${(error as Error).message}`);
  }
  return new Map(
    text.split('\n').flatMap((line) => {
      const [name, , id] = line.split(':');
      return name && id && isNumber(id) ? [[name, Number(id)] as const] : [];
    }),
  );
}
