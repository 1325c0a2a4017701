/**
 * Derives from a cgroup's path which container or unit runs in it. The hierarchies of v1, v2 and both mixed name their
 * folders alike:
 *
 *   /docker/ID                                               Docker, cgroupfs driver
 *   /system.slice/docker-ID.scope                            Docker, systemd driver
 *   /kubepods/burstable/podUID/ID                            Kubernetes, cgroupfs driver
 *   /kubepods.slice/.../kubepods-podUID.slice/cri-containerd-ID.scope   Kubernetes, systemd driver; UID with _ for -
 *   /machine.slice/libpod-ID.scope/container                 Podman
 *   /lxc/NAME, /lxc.payload.NAME                             LXC, Incus, LXD
 *   /system.slice/x.service                                  a systemd unit
 */
import { cleanName } from './clean_name.ts';

export interface CgroupPath {
  /** 64 hex digits; for LXC, which has no ids, the container's name. */
  containerId?: string;
  podUid?: string;
  /** Name of the unit, with `.service`. */
  unit?: string;
}

/** The prefixes are listed because others exist: `crio-conmon-ID.scope` holds the container's monitor. */
const CONTAINER =
  /^(?:(?:docker|containerd|cri-containerd|nerdctl|crio|libpod|libpod-payload)-)?([0-9a-f]{64})(?:\.scope)?$/;

/** Folder name that runc creates when it gets a systemd path without the systemd driver: `SLICE:PREFIX:ID`. */
const CONTAINER_AFTER_SLICE = /:([0-9a-f]{64})$/;

/** A static pod's uid is a hash without dashes. */
const POD = /(?:^|-)pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?(?:$|:)/;

const LXC_PAYLOAD = /^lxc\.payload\.(.+)$/;

const UNIT = /.\.service$/;

/** Units below these belong to a user's desktop or shell and come and go with it. */
const LOGIN_SESSION = /^(?:user\.slice|user@.*\.service|session-.*\.scope)$/;

/** Suffix of the path of a folder that was removed under a process: cgroups(7), /proc/PID/cgroup. */
const REMOVED = / \(deleted\)$/;

/** The innermost of each kind counts. */
export function parseCgroupPath(path: string): CgroupPath {
  const owner: CgroupPath = {};
  const folders = path.replace(REMOVED, '').split('/');
  const isLoginSession = folders.some((folder) => LOGIN_SESSION.test(folder));
  for (let i = 0; i < folders.length; i++) {
    const folder = folders[i]!;
    const containerId = cleanName(folder === 'lxc' ? (folders[++i] ?? '') : containerIdOf(folder));
    if (containerId) owner.containerId = containerId;
    const podUid = POD.exec(folder)?.[1];
    if (podUid) owner.podUid = podUid.replaceAll('_', '-');
    const unit = cleanName(unescapeUnit(folder));
    if (UNIT.test(unit) && !isLoginSession) owner.unit = unit;
  }
  return owner;
}

function containerIdOf(folder: string): string {
  return (CONTAINER.exec(folder) ?? CONTAINER_AFTER_SLICE.exec(folder) ?? LXC_PAYLOAD.exec(folder))?.[1] ?? '';
}

/**
 * Undoes systemd.unit(5), "String Escaping for Inclusion in Unit Names", and the _ before names that could be a
 * cgroup's own files.
 */
function unescapeUnit(folder: string): string {
  return folder
    .replace(/^_/, '')
    .replace(/(?:\\x[0-9a-f]{2})+/g, (bytes) => Buffer.from(bytes.replaceAll('\\x', ''), 'hex').toString());
}
