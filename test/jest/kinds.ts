/**
 * The words in the name of a suite, `NAME.WORD.test.ts`, say what the suite needs and what may run beside it; a suite
 * without a word needs a build only, takes a second or two, and belongs to `make check`. test/README.md explains them.
 */
import { existsSync } from 'node:fs';
import { basename } from 'node:path';
import { isInstalled } from '../page/chromium.ts';
import { areInstalled } from '../page/proxies.ts';

interface Kind {
  /** What a suite of the kind needs, in words. */
  needs?: string;
  isMet?(): boolean;
  /** The number of its suites that may run at the same time, where that is limited. */
  atOnce?: number;
}

const FLEET = ['/usr/sbin/clickhouse-server', '/usr/share/java/zookeeper.jar', '/usr/bin/java'];

/** In the order in which a name has the words. A kind without needs says when a suite runs. */
export const KINDS: Record<string, Kind> = {
  root: { needs: 'root', isMet: () => process.getuid!() === 0, atOnce: 1 },
  beside: {},
  page: { needs: 'Chromium', isMet: isInstalled, atOnce: 2 },
  proxy: { needs: 'nginx, haproxy and caddy', isMet: areInstalled },
  fleet: {
    needs: 'clickhouse-server, zookeeper and java',
    isMet: () => FLEET.every((file) => existsSync(file)),
    atOnce: 2,
  },
  slow: {},
  alone: {},
  long: {},
};

export const kindsOf = (path: string): string[] => basename(path).split('.').slice(1, -2);

/** What a suite needs and this machine does not have, in words; empty if the suite can run. */
export function unmetNeeds(path: string): string[] {
  return kindsOf(path).flatMap((kind) => (KINDS[kind]?.isMet?.() === false ? [KINDS[kind].needs!] : []));
}
