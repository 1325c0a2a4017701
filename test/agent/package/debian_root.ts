/** A fresh Debian 12 in a folder: what packages do to it can be seen, and is gone with it. */
import { execFileSync, type SpawnSyncReturns, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

/** It is outside of the project: hundreds of MB that are the same for every clone. */
const BASES = '/var/cache/kreplay-test';

/** The package depends on these, which are installed first, so that no network is needed later. */
const PACKAGES = ['libelf1', 'zlib1g', 'libstdc++6', 'init-system-helpers'];
const WITHOUT_SYSTEMD = ['systemd-standalone-sysusers', 'systemd-standalone-tmpfiles'];
const WITH_SYSTEMD = ['systemd', 'systemd-sysv'];

/** The environment that a login there has; the caller's is not passed on. */
const ENVIRONMENT = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C.UTF-8' };

interface Root {
  path: string;
  run(...command: string[]): SpawnSyncReturns<string>;
}

export interface DebianRoot extends Root {
  start(...command: string[]): ReturnType<typeof spawn>;
  remove(): void;
}

/** Programs in it see this host's kernel, processes and network. */
export function newDebianRoot(): DebianRoot {
  const { path, remove } = newCopy('bookworm', WITHOUT_SYSTEMD);
  for (const name of ['proc', 'sys', 'dev']) {
    execFileSync('mount', ['--rbind', `/${name}`, join(path, name)]);
    execFileSync('mount', ['--make-rslave', join(path, name)]);
  }
  return {
    path,
    run: (...command) => runIn(['chroot', path], command),
    start: (...command) => spawn('chroot', [path, ...command], { env: ENVIRONMENT, stdio: ['ignore', 'pipe', 'pipe'] }),
    remove,
  };
}

export interface BootedDebian extends Root {
  remove(): Promise<void>;
}

/** Boots it with systemd as its first process. It has processes and a network of its own. */
export async function bootDebian(): Promise<BootedDebian> {
  const { path, remove } = newCopy('bookworm-systemd', WITH_SYSTEMD);
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

function newCopy(name: string, packages: readonly string[]): { path: string; remove(): void } {
  const base = join(BASES, name);
  if (!existsSync(base)) makeBase(base, [...PACKAGES, ...packages]);
  const folder = mkdtempSync(join(tmpdir(), 'kreplay-debian-'));
  const path = join(folder, 'root');
  for (const each of ['upper', 'work', 'root']) mkdirSync(join(folder, each));
  const layers = `lowerdir=${base},upperdir=${join(folder, 'upper')},workdir=${join(folder, 'work')}`;
  execFileSync('mount', ['-t', 'overlay', '-o', layers, 'overlay', path]);
  return {
    path,
    remove() {
      // Processes that a killed shell had started may not have ended yet.
      execFileSync('umount', ['--recursive', '--lazy', path]);
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

function makeBase(base: string, packages: readonly string[]): void {
  mkdirSync(dirname(base), { recursive: true });
  const folder = mkdtempSync(`${base}-`);
  // debootstrap reports what failed in its log only.
  const args = ['--variant=minbase', `--include=${packages.join(',')}`, 'bookworm', folder, mirror()];
  const made = spawnSync('debootstrap', args, { encoding: 'utf8' });
  if (made.status !== 0) throw new Error(`debootstrap: ${made.stdout}${made.stderr}`);
  execFileSync('chmod', ['755', folder]);
  renameSync(folder, base);
}

/** The mirror from which this host gets its packages. */
function mirror(): string {
  const files = ['/etc/apt/sources.list.d/debian.sources', '/etc/apt/sources.list'].filter((file) => existsSync(file));
  const text = files.map((file) => readFileSync(file, 'utf8')).join('\n');
  const found = /^(?:URIs:\s*|deb\s+(?:\[.*?\]\s+)?)(\S+)/m.exec(text)?.[1];
  if (!found) throw new Error(`no mirror of Debian in ${files.join(', ')}`);
  return found;
}
