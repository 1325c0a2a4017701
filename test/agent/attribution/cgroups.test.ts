/** Tests how a cgroup id becomes a path: through a process, or by a search of the hierarchy. */
import { mkdirSync, mkdtempSync, renameSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { createCgroups, findCgroups, SEARCH_EVERY_MS } from '../../../agent/attribution/cgroups.ts';

let root: string;

beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'kreplay-cgroups-'));
  mkdirSync(join(root, 'system.slice/nginx.service'), { recursive: true });
});

afterEach(() => rmSync(root, { recursive: true }));

const NOBODY = 2 ** 22 + 1;

test('the cgroup of a process that has exited is found by its inode number', () => {
  const cgroups = createCgroups({ hierarchy: 'v2', root });
  const { ino } = statSync(join(root, 'system.slice/nginx.service'));
  expect(cgroups.findPath(ino, NOBODY)).toBe('/system.slice/nginx.service');
  // The path is cached, so it survives the rename.
  renameSync(join(root, 'system.slice'), join(root, 'moved'));
  expect(cgroups.findPath(ino, NOBODY)).toBe('/system.slice/nginx.service');
});

test('several cgroups of exited processes are found by one search', () => {
  const folders = ['system.slice', 'system.slice/nginx.service', 'system.slice/redis.service', 'user.slice'];
  for (const folder of folders) mkdirSync(join(root, folder), { recursive: true });
  const cgroups = createCgroups({ hierarchy: 'v2', root });
  const paths = folders.map((folder) => cgroups.findPath(statSync(join(root, folder)).ino, NOBODY));
  expect(paths).toEqual(folders.map((folder) => `/${folder}`));
});

test('a cgroup that does not exist is unknown, and is not searched for again immediately', () => {
  const cgroups = createCgroups({ hierarchy: 'v2', root });
  expect(cgroups.findPath(1, NOBODY)).toBeUndefined();
  mkdirSync(join(root, 'late'));
  expect(cgroups.findPath(statSync(join(root, 'late')).ino, NOBODY)).toBeUndefined();
});

test('id 0 is unknown without a search', () => {
  const cgroups = createCgroups({ hierarchy: 'v2', root });
  const { ino } = statSync(join(root, 'system.slice'));
  expect([cgroups.findPath(0, NOBODY), cgroups.findPath(ino, NOBODY)]).toEqual([undefined, '/system.slice']);
});

test('a cgroup that no folder has is searched for once', async () => {
  const cgroups = createCgroups({ hierarchy: 'v2', root });
  expect(cgroups.findPath(1, NOBODY)).toBeUndefined();
  mkdirSync(join(root, 'late'));
  const { ino } = statSync(join(root, 'late'));
  await setTimeout(SEARCH_EVERY_MS);
  // A search for the first id would have put off the one for the second.
  expect([cgroups.findPath(1, NOBODY), cgroups.findPath(ino, NOBODY)]).toEqual([undefined, '/late']);
});

test('a cgroup that the kernel has named is known without a look, whether or not it is still there', () => {
  const cgroups = createCgroups({ hierarchy: 'v2', root });
  cgroups.define(2 ** 40, ['x.service', 'system.slice']);
  cgroups.define(1, []);
  expect([cgroups.findPath(2 ** 40, NOBODY), cgroups.findPath(1, NOBODY)]).toEqual(['/system.slice/x.service', '/']);
});

test('the cgroup hierarchy of the host is found, and a process in it names its path', () => {
  const source = findCgroups();
  const own = createCgroups(source).findPath(statSync(source.root).ino, process.pid);
  expect(own).toBe('/');
});

test.each([
  ['5:memory:/a\n4:pids:/b\n0::/c\n', 'v1_memory'],
  ['5:cpu,cpuacct:/a\n4:pids:/b\n0::/c\n', 'v1_pids'],
  ['0::/c\n', 'v2'],
])('if v2 is not the only hierarchy, %j selects %s', (own, hierarchy) => {
  expect(findCgroups(root, own).hierarchy).toBe(hierarchy);
});
