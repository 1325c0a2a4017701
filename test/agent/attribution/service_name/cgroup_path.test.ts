/** Tests names from cgroup paths: those that container runtimes, Kubernetes and systemd make, and any other text. */
import fc from 'fast-check';
import { NAME_LENGTH_MAX } from '../../../../agent/attribution/service_name/clean_name.ts';
import { type CgroupPath, parseCgroupPath } from '../../../../agent/attribution/service_name/service_name.ts';

const ID = '3f4a1c0e9b7d2f6588c1a0b4e7d93c52f1608ab97d3e4c2b5a6f0d1e8c7b9a43';
const OTHER_ID = 'b02c9d7714e8fa3650c1d2e3f4a5b6978812cd34ef56ab7890fedcba98765432';
const UID = '1b4c2f3e-8d5a-4c6b-9e7f-0a1b2c3d4e5f';
const UID_IN_SLICE = UID.replaceAll('-', '_');
const STATIC_UID = '8f3a6e0c5d7b49e1a2c4f6081b3d5e7f';
const USER = '/user.slice/user-1000.slice';

test.each<[string, string, CgroupPath]>([
  ['Docker, cgroupfs driver', `/docker/${ID}`, { containerId: ID }],
  ['Docker, systemd driver', `/system.slice/docker-${ID}.scope`, { containerId: ID }],
  ['Docker, rootless', `${USER}/user@1000.service/user.slice/docker-${ID}.scope`, { containerId: ID }],
  ['Docker under a parent of its own', `/actions_job/${ID}`, { containerId: ID }],
  ['a folder inside a Docker container', `/docker/${ID}/init`, { containerId: ID }],
  ['Amazon ECS', `/ecs/shop/0a1b2c3d4e5f60718293a4b5c6d7e8f9/${ID}`, { containerId: ID }],
  ['nerdctl', `/system.slice/nerdctl-${ID}.scope`, { containerId: ID }],
  ['Podman', `/machine.slice/libpod-${ID}.scope/container`, { containerId: ID }],
  ['Podman, cgroupfs driver', `/libpod_parent/libpod-${ID}`, { containerId: ID }],
  [
    'Podman, in a pod of its own',
    `/machine.slice/machine-libpod_pod_${OTHER_ID}.slice/libpod-${ID}.scope`,
    { containerId: ID },
  ],
  ['Podman, rootless', `${USER}/user@1000.service/user.slice/libpod-${ID}.scope`, { containerId: ID }],
  [
    'Podman, in the unit of a quadlet',
    `/system.slice/web.service/libpod-payload-${ID}`,
    { containerId: ID, unit: 'web.service' },
  ],
  ['LXC', '/lxc/web-1', { containerId: 'web-1' }],
  ['LXC, a number for a name', '/lxc/101/ns/init.scope', { containerId: '101' }],
  ['LXC 4', '/lxc.payload.web-1', { containerId: 'web-1' }],
  ['LXC, a unit inside', '/lxc.payload.db/system.slice/cron.service', { containerId: 'db', unit: 'cron.service' }],
  ['LXC, a container called lxc', '/lxc/lxc/x', { containerId: 'lxc' }],
  ['LXC, a container called like a unit', '/lxc/a.service', { containerId: 'a.service' }],
])('container: %s', (_, path, owner) => expect(parseCgroupPath(path)).toEqual(owner));

test.each<[string, string, CgroupPath]>([
  ['burstable, cgroupfs', `/kubepods/burstable/pod${UID}/${ID}`, { containerId: ID, podUid: UID }],
  ['best effort, cgroupfs', `/kubepods/besteffort/pod${UID}/${ID}`, { containerId: ID, podUid: UID }],
  ['guaranteed, cgroupfs', `/kubepods/pod${UID}/${ID}`, { containerId: ID, podUid: UID }],
  ['a static pod, cgroupfs', `/kubepods/burstable/pod${STATIC_UID}/${ID}`, { containerId: ID, podUid: STATIC_UID }],
  ['a pod without its container', `/kubepods/burstable/pod${UID}`, { podUid: UID }],
  [
    'containerd, burstable',
    `/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod${UID_IN_SLICE}.slice/cri-containerd-${ID}.scope`,
    { containerId: ID, podUid: UID },
  ],
  [
    'containerd, guaranteed',
    `/kubepods.slice/kubepods-pod${UID_IN_SLICE}.slice/cri-containerd-${ID}.scope`,
    { containerId: ID, podUid: UID },
  ],
  [
    'containerd, a static pod',
    `/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod${STATIC_UID}.slice/cri-containerd-${ID}.scope`,
    { containerId: ID, podUid: STATIC_UID },
  ],
  [
    'containerd that is configured for the systemd driver, but does not use it',
    `/system.slice/containerd.service/kubepods-burstable-pod${UID_IN_SLICE}.slice:cri-containerd:${ID}`,
    { containerId: ID, podUid: UID, unit: 'containerd.service' },
  ],
  [
    'CRI-O',
    `/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod${UID_IN_SLICE}.slice/crio-${ID}.scope/container`,
    { containerId: ID, podUid: UID },
  ],
  [
    'Docker',
    `/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod${UID_IN_SLICE}.slice/docker-${ID}.scope`,
    { containerId: ID, podUid: UID },
  ],
  [
    'kind: a node that is a Docker container, v1',
    `/docker/${OTHER_ID}/kubelet/kubepods/burstable/pod${UID}/${ID}`,
    { containerId: ID, podUid: UID },
  ],
  [
    'kind: a node that is a Docker container, v2',
    `/system.slice/docker-${OTHER_ID}.scope/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice` +
      `/kubelet-kubepods-besteffort-pod${UID_IN_SLICE}.slice/cri-containerd-${ID}.scope`,
    { containerId: ID, podUid: UID },
  ],
  [
    'Docker in a pod: the inner container',
    `/kubepods/burstable/pod${UID}/${OTHER_ID}/docker/${ID}`,
    { containerId: ID, podUid: UID },
  ],
])('Kubernetes: %s', (_, path, owner) => expect(parseCgroupPath(path)).toEqual(owner));

test.each([
  ['/system.slice/nginx.service', 'nginx.service'],
  ['/system.slice/nginx.service/', 'nginx.service'],
  ['/system.slice/nginx.service/workers', 'nginx.service'],
  ['/system.slice/nginx.service (deleted)', 'nginx.service'],
  ['/system.slice/system-getty.slice/getty@tty1.service', 'getty@tty1.service'],
  ['/system.slice/system-postgresql.slice/postgresql@16-main.service', 'postgresql@16-main.service'],
  ['/shop.slice/shop-cart.slice/cart.service', 'cart.service'],
  ['/cron.service', 'cron.service'],
  ['/system.slice/outer.service/inner.service', 'inner.service'],
  ['/system.slice/_cpu.service', 'cpu.service'],
  ['/system.slice/systemd-fsck@dev-disk-by\\x2duuid-1.service', 'systemd-fsck@dev-disk-by-uuid-1.service'],
  ['/system.slice/caf\\xc3\\xa9.service', 'café.service'],
  ['/system.slice/a\\x0ab.service', 'ab.service'],
  ['/system.slice/a\\x2.service', 'a\\x2.service'],
])('the unit of %s is %s', (path, unit) => expect(parseCgroupPath(path)).toEqual({ unit }));

test.each([
  ['no path', ''],
  ['the root', '/'],
  ['init', '/init.scope'],
  ['a slice', '/system.slice'],
  ['a scope', '/system.slice/run-r1234.scope'],
  ['a shell', `${USER}/session-2.scope`],
  ["a user's manager", `${USER}/user@1000.service/init.scope`],
  ["a user's unit", `${USER}/user@1000.service/app.slice/app-gnome-terminal.slice/vte-spawn-1.scope`],
  ["a user's service", `${USER}/user@1000.service/app.slice/syncthing.service`],
  ["a user's manager elsewhere", '/people.slice/user@1000.service/syncthing.service'],
  ['a service below a session', '/session-3.scope/cpu.service'],
  ['a service without a name', '/system.slice/.service'],
  ["the monitor of CRI-O's container", `/system.slice/crio-conmon-${ID}.scope`],
  ["the monitor of Podman's container", `/machine.slice/libpod-conmon-${ID}.scope`],
  ["the monitor of LXC's container", '/lxc.monitor.web-1'],
  ['an id of 63 digits', `/docker/${ID.slice(1)}`],
  ['an id of 65 digits', `/docker/0${ID}`],
  ['an id in upper case', `/docker/${ID.toUpperCase()}`],
  ['a pod without a uid', '/kubepods/burstable/podinfo'],
  ['LXC without a container', '/lxc/'],
  ['LXC by itself', '/lxc'],
])('%s gives no name', (_, path) => expect(parseCgroupPath(path)).toEqual({}));

test('any path is parsed, and the result is well formed', () => {
  const folder = fc.oneof(
    fc.constantFrom(`docker-${ID}.scope`, ID, `pod${UID}`, 'lxc', 'lxc.payload.', 'user.slice', '.service', '\\x00'),
    fc.string({ unit: 'binary', maxLength: 400 }),
  );
  const path = fc.array(fc.array(folder, { maxLength: 3 }).map((parts) => parts.join('')));
  fc.assert(
    fc.property(path, (folders) => {
      const { containerId, podUid, unit } = parseCgroupPath(folders.join('/'));
      for (const name of [containerId ?? 'x', podUid ?? 'x', unit ?? 'x']) {
        expect(name).not.toBe('');
        expect(name.length).toBeLessThanOrEqual(NAME_LENGTH_MAX);
        expect(name).not.toMatch(/[\p{Cc}\p{Cs}]/u);
      }
      expect(podUid ?? UID).toBe(UID);
      expect(unit ?? '.service').toMatch(/\.service$/);
    }),
  );
});
