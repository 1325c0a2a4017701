/**
 * A Debian 12 in a folder: what packages do to it can be seen, and is gone with it. It is a copy of this host's, which
 * has all that the package depends on; in a run with more repetitions it is a fresh one, which has nothing else.
 */
import { execFileSync, type SpawnSyncReturns, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { times } from '../../repeats.ts';
import { PROJECT } from './packages.ts';

/** It is outside of the project: hundreds of MB that are the same for every clone. */
const BASES = '/var/cache/kreplay-test';

/** The package depends on these, which are installed first, so that no network is needed later. */
const PACKAGES = ['libelf1', 'zlib1g', 'libstdc++6', 'init-system-helpers'];
const WITHOUT_SYSTEMD = ['systemd-standalone-sysusers', 'systemd-standalone-tmpfiles'];
const WITH_SYSTEMD = ['systemd', 'systemd-sysv'];

const isFresh = times(1) > 1;

/** The environment that a login there has; the caller's is not passed on. */
const ENVIRONMENT = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C.UTF-8' };

interface Root {
  path: string;
  run(...command: string[]): SpawnSyncReturns<string>;
}

export interface DebianRoot extends Root {
  /** Folder with the files that are not as they were at first. */
  changes: string;
  start(...command: string[]): ReturnType<typeof spawn>;
  /** Makes its state a base for others: no program may run in it any more. */
  freeze(): void;
  remove(): void;
}

/** Programs in it see this host's kernel, processes and network. `frozen` is a root that it continues. */
export function newDebianRoot(frozen?: DebianRoot): DebianRoot {
  const base = isFresh ? freshBase('bookworm', WITHOUT_SYSTEMD) : '/';
  const { path, changes, unmount, remove } = newCopy(frozen ? [frozen.changes, base] : [base]);
  if (!isFresh && !frozen) makeBare(path);
  // The sources would stand in for a file that the package lacks.
  if (existsSync(join(path, PROJECT))) execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', join(path, PROJECT)]);
  for (const name of ['proc', 'sys', 'dev']) {
    execFileSync('mount', ['--rbind', `/${name}`, join(path, name)]);
    execFileSync('mount', ['--make-rslave', join(path, name)]);
  }
  return {
    path,
    changes,
    run: (...command) => runIn(['chroot', path], command),
    start: (...command) => spawn('chroot', [path, ...command], { env: ENVIRONMENT, stdio: ['ignore', 'pipe', 'pipe'] }),
    freeze: unmount,
    remove,
  };
}

/**
 * Removes what a host has that a fresh Debian does not: a policy that keeps services from starting, kreplay, and files
 * that people and programs have left.
 */
function makeBare(path: string): void {
  rmSync(join(path, 'usr/sbin/policy-rc.d'), { force: true });
  for (const folder of ['srv', 'etc/kreplay', 'var/lib/kreplay'])
    rmSync(join(path, folder), { recursive: true, force: true });
  mkdirSync(join(path, 'srv'));
  const { status } = spawnSync('chroot', [path, 'dpkg', '--status', 'kreplay'], { env: ENVIRONMENT });
  if (status === 0)
    execFileSync('chroot', [path, 'dpkg', '--no-triggers', '--purge', 'kreplay'], {
      env: ENVIRONMENT,
      stdio: 'ignore',
    });
  // This host's folder may hold millions of files, and removing one in an overlay writes its absence.
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'mode=1777', 'tmpfs', join(path, 'tmp')]);
}

export interface BootedDebian extends Root {
  remove(): Promise<void>;
}

/** Boots it with systemd as its first process. It has processes and a network of its own. */
export async function bootDebian(): Promise<BootedDebian> {
  const { path, remove } = newCopy([freshBase('bookworm-systemd', WITH_SYSTEMD)]);
  // Without a running systemd there is none that could be asked for a unit.
  const unit = existsSync('/run/systemd/system') ? [] : ['--keep-unit'];
  const place = ['--directory', path, '--machine', `kreplay-${process.pid}`, '--register=no', ...unit];
  const args = [...place, '--boot', '--private-network', '--console=pipe'];
  const container = spawn('systemd-nspawn', args, { stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  for (const stream of [container.stdout, container.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  const run = (...command: string[]) => {
    const { stdout: first } = spawnSync('pgrep', ['--parent', String(container.pid)], { encoding: 'utf8' });
    return runIn(['nsenter', '--all', '--target', first.trim()], command);
  };
  while (!/^(running|degraded)/.test(run('systemctl', 'is-system-running').stdout ?? '')) {
    await sleep(200);
    if (container.exitCode === null) continue;
    remove();
    throw new Error(`systemd-nspawn: ${output}`);
  }
  return {
    path,
    run,
    async remove() {
      container.kill('SIGTERM');
      await once(container, 'exit');
      remove();
    },
  };
}

function runIn([file, ...args]: readonly string[], command: readonly string[]): SpawnSyncReturns<string> {
  return spawnSync(file!, [...args, ...command], { env: ENVIRONMENT, encoding: 'utf8', timeout: 120_000 });
}

interface Copy {
  path: string;
  changes: string;
  unmount(): void;
  remove(): void;
}

function newCopy(layers: readonly string[]): Copy {
  const folder = mkdtempSync(join(tmpdir(), 'kreplay-debian-'));
  const path = join(folder, 'root');
  const changes = join(folder, 'upper');
  // An overlay cannot write into its own base, which may be the file system of this folder.
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'mode=755', 'tmpfs', folder]);
  for (const each of ['upper', 'work', 'root']) mkdirSync(join(folder, each));
  const options = `lowerdir=${layers.join(':')},upperdir=${changes},workdir=${join(folder, 'work')}`;
  execFileSync('mount', ['-t', 'overlay', '-o', options, 'overlay', path]);
  let isMounted = true;
  // Processes that a killed shell had started may not have ended yet.
  const unmount = () => {
    if (isMounted) execFileSync('umount', ['--recursive', '--lazy', path]);
    isMounted = false;
  };
  return {
    path,
    changes,
    unmount,
    remove() {
      unmount();
      execFileSync('umount', ['--lazy', folder]);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function freshBase(name: string, packages: readonly string[]): string {
  const base = join(BASES, name);
  if (existsSync(base)) return base;
  mkdirSync(dirname(base), { recursive: true });
  const folder = mkdtempSync(`${base}-`);
  // debootstrap reports what failed in its log only.
  const include = `--include=${[...PACKAGES, ...packages].join(',')}`;
  const args = ['--variant=minbase', include, 'bookworm', folder, mirror()];
  const made = spawnSync('debootstrap', args, { encoding: 'utf8' });
  if (made.status !== 0) throw new Error(`debootstrap: ${made.stdout}${made.stderr}`);
  execFileSync('chmod', ['755', folder]);
  renameSync(folder, base);
  return base;
}

/** The mirror from which this host gets its packages. */
function mirror(): string {
  const files = ['/etc/apt/sources.list.d/debian.sources', '/etc/apt/sources.list'].filter((file) => existsSync(file));
  const text = files.map((file) => readFileSync(file, 'utf8')).join('\n');
  const found = /^(?:URIs:\s*|deb\s+(?:\[.*?\]\s+)?)(\S+)/m.exec(text)?.[1];
  if (!found) throw new Error(`no mirror of Debian in ${files.join(', ')}`);
  return found;
}
