/** Determines which service a process belongs to, from its arguments, environment and cgroup. */
import type { EnvironmentName } from '../../../bpf/schema/environment_names.ts';
import { cleanName } from './clean_name.ts';
import { findScriptName } from './script_name.ts';

export interface ProcessFacts {
  /** File name of the program; empty if it is unknown. */
  executable: string;
  isKernelThread: boolean;
  /** argv, which begins with the program's own name; may be empty or cut short. */
  args: readonly string[];
  /** The variables of ENVIRONMENT_NAMES that are set. */
  environment: ReadonlyMap<string, string>;
  /** Path of the cgroup inside the hierarchy, such as `/system.slice/nginx.service`. */
  cgroupPath: string | undefined;
}

export type ServiceSource =
  | 'kernel'
  | 'otel_service_name'
  | 'otel_resource_attributes'
  | 'container'
  | 'systemd_unit'
  | 'ci_job'
  | 'script'
  | 'executable'
  | 'unknown';

export interface ServiceName {
  name: string;
  source: ServiceSource;
}

/** Variables with a job's name: GitLab, GitHub Actions, Jenkins and Buildkite. */
const CI_JOB_NAMES: readonly EnvironmentName[] = ['CI_JOB_NAME', 'GITHUB_JOB', 'JOB_NAME', 'BUILDKITE_LABEL'];

/** Number of digits of a container id that container tools show. */
const SHORT_ID_LENGTH = 12;

/** Returns the service name. Never fails, even if a program has overwritten its arguments and environment. */
export function chooseServiceName(facts: ProcessFacts): ServiceName {
  if (facts.isKernelThread) return { name: 'kernel', source: 'kernel' };
  for (const [source, text] of listCandidates(facts)) {
    const name = cleanName(text ?? '');
    if (name !== '') return { name, source };
  }
  return { name: 'unknown', source: 'unknown' };
}

/**
 * Yields names in order of precedence: an explicit service name, then the name of the container, unit or job, then the
 * name of the program.
 */
function* listCandidates({
  executable,
  args,
  environment,
  cgroupPath,
}: ProcessFacts): Generator<[source: ServiceSource, name: string | undefined]> {
  const readVariable = (name: EnvironmentName) => environment.get(name)?.trim();
  yield ['otel_service_name', readVariable('OTEL_SERVICE_NAME')];
  const attributes = parseResourceAttributes(readVariable('OTEL_RESOURCE_ATTRIBUTES') ?? '');
  yield ['otel_resource_attributes', attributes?.get('service.name')?.trim()];
  yield* listCgroupCandidates(cgroupPath ?? '');
  for (const name of CI_JOB_NAMES) yield ['ci_job', readVariable(name)];
  yield ['script', findScriptName(executable, args)];
  yield ['executable', executable];
}

/** Returns the name of the container or unit that runs alone in the cgroup; undefined for other cgroups. */
export function findCgroupService(path: string): string | undefined {
  for (const [, text] of listCgroupCandidates(path)) {
    const name = cleanName(text ?? '');
    if (name !== '') return name;
  }
  return undefined;
}

function* listCgroupCandidates(path: string): Generator<[source: ServiceSource, name: string | undefined]> {
  const { containerId, unit } = parseCgroupPath(path);
  yield ['container', containerId && shortenContainerId(containerId)];
  yield ['systemd_unit', unit?.replace(/\.service$/, '')];
}

/** Shortens a container's id. An LXC container has a name instead of an id; the name stays as it is. */
function shortenContainerId(containerId: string): string {
  return /^[0-9a-f]{64}$/.test(containerId) ? containerId.slice(0, SHORT_ID_LENGTH) : containerId;
}

/*
 * Derives from a cgroup's path which container or unit runs in the cgroup. The folder names are the same in v1, v2 and
 * mixed hierarchies:
 *
 *   /docker/ID                                                        Docker, cgroupfs driver
 *   /system.slice/docker-ID.scope                                     Docker, systemd driver
 *   /kubepods/burstable/podUID/ID                                     Kubernetes, cgroupfs driver
 *   /kubepods.slice/.../kubepods-podUID.slice/cri-containerd-ID.scope Kubernetes, systemd driver; UID with _ for -
 *   /machine.slice/libpod-ID.scope/container                          Podman
 *   /lxc/NAME, /lxc.payload.NAME                                      LXC, Incus, LXD
 *   /system.slice/x.service                                           a systemd unit
 */

export interface CgroupPath {
  /** 64 hex digits. For LXC, which has no ids: the container's name. */
  containerId?: string;
  podUid?: string;
  /** Name of the unit, with `.service`. */
  unit?: string;
}

/**
 * Only these prefixes are accepted, because others have another meaning: `crio-conmon-ID.scope` is the cgroup of the
 * container's monitor process.
 */
const CONTAINER =
  /^(?:(?:docker|containerd|cri-containerd|nerdctl|crio|libpod|libpod-payload)-)?([0-9a-f]{64})(?:\.scope)?$/;

/**
 * Matches the folder name that runc creates if it gets a path for the systemd driver but uses the cgroupfs driver:
 * `SLICE:PREFIX:ID`.
 */
const CONTAINER_AFTER_SLICE = /:([0-9a-f]{64})$/;

/** Matches a pod's uid; a static pod's uid is a hash without dashes. */
const POD = /(?:^|-)pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?(?:$|:)/;

const LXC_PAYLOAD = /^lxc\.payload\.(.+)$/;

const UNIT = /.\.service$/;

/**
 * Matches the folders of a login session. The units in such a folder belong to a user's desktop or shell and end with
 * the session.
 */
const LOGIN_SESSION = /^(?:user\.slice|user@.*\.service|session-.*\.scope)$/;

/** Suffix of a path in /proc/PID/cgroup if the folder was removed while a process was in it: cgroups(7). */
const REMOVED = / \(deleted\)$/;

/**
 * Returns the container, pod and unit of a path. If several folders name the same kind of owner, the innermost folder
 * counts.
 */
export function parseCgroupPath(path: string): CgroupPath {
  const owner: CgroupPath = {};
  const folders = path.replace(REMOVED, '').split('/');
  const isLoginSession = folders.some((folder) => LOGIN_SESSION.test(folder));
  for (let i = 0; i < folders.length; i++) {
    const folder = folders[i]!;
    const containerId = cleanName(folder === 'lxc' ? (folders[++i] ?? '') : parseContainerId(folder));
    if (containerId) owner.containerId = containerId;
    const podUid = POD.exec(folder)?.[1];
    if (podUid) owner.podUid = podUid.replaceAll('_', '-');
    const unit = cleanName(unescapeUnit(folder));
    if (UNIT.test(unit) && !isLoginSession) owner.unit = unit;
  }
  return owner;
}

function parseContainerId(folder: string): string {
  return (CONTAINER.exec(folder) ?? CONTAINER_AFTER_SLICE.exec(folder) ?? LXC_PAYLOAD.exec(folder))?.[1] ?? '';
}

/**
 * Undoes the escaping of unit names: systemd.unit(5), "String Escaping for Inclusion in Unit Names". Also removes the
 * leading _, which systemd adds to names that could be a cgroup's own files.
 */
function unescapeUnit(folder: string): string {
  return folder
    .replace(/^_/, '')
    .replace(/(?:\\x[0-9a-f]{2})+/g, (bytes) => Buffer.from(bytes.replaceAll('\\x', ''), 'hex').toString());
}

/*
 * Parses OTEL_RESOURCE_ATTRIBUTES as the OpenTelemetry resource SDK does (specification, "Specifying resource
 * information via an environment variable"): W3C Baggage without the metadata after semicolons.
 *
 *   attributes = [ pair *("," pair) ]
 *   pair       = key "=" value         both percent-encoded, blanks around them
 */

/**
 * Parses the attributes. Returns null if any part is malformed, because the specification then discards the whole
 * variable. If a key is repeated, its last value counts.
 */
export function parseResourceAttributes(text: string): Map<string, string> | null {
  const attributes = new Map<string, string>();
  if (text.trim() === '') return attributes;
  for (const pair of text.split(',')) {
    // Splits at the first equals sign: Baggage allows more equals signs in a value, and SDKs accept them.
    const separator = pair.indexOf('=');
    const key = separator < 0 ? '' : decode(pair.slice(0, separator));
    const value = decode(pair.slice(separator + 1));
    if (!key || value === null) return null;
    attributes.set(key, value);
  }
  return attributes;
}

function decode(text: string): string | null {
  try {
    return decodeURIComponent(text.trim());
  } catch {
    return null; // The text has a lone percent sign, or bytes that are not UTF-8.
  }
}
