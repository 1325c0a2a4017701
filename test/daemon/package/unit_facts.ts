/** A unit's settings, for tests that start what it would start. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

const DEBIAN = join(import.meta.dirname, '../../../daemon/package/debian');

/** Settings by key; if a key is repeated, the last one counts. */
export function unitFacts(unit: string): Record<string, string> {
  const lines = readFileSync(join(DEBIAN, unit), 'utf8').split('\n');
  return Object.fromEntries(
    lines
      .filter((line) => /^\w+=/.test(line))
      .map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
  );
}

/** The command that starts it as the unit says: with its user, groups, capabilities and mask of new files. */
export function commandOf(unit: string, state: string): string[] {
  const { User: user, Group: group, AmbientCapabilities = '', UMask: umask, ExecStart } = unitFacts(unit);
  const capabilities = AmbientCapabilities.toLowerCase()
    .split(' ')
    .filter((name) => name !== '')
    .map((name) => `,+${name.slice('cap_'.length)}`)
    .join('');
  const sets = ['inh-caps', 'ambient-caps', 'bounding-set'].map((set) => `--${set}=-all${capabilities}`);
  const privileges = [`--reuid=${user}`, `--regid=${group}`, '--init-groups', '--no-new-privs', ...sets];
  const script = `umask ${umask} && cd ${state} && exec "$@"`;
  return ['sh', '-c', script, 'sh', 'setpriv', ...privileges, ...ExecStart!.split(' ')];
}
