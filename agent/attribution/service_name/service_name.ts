/** Which service a process belongs to, from what is known of it without asking it. */

import type { EnvironmentName } from '../../../bpf/schema/environment_names.ts';
import { parseCgroupPath } from './cgroup_path.ts';
import { cleanName } from './clean_name.ts';
import { parseResourceAttributes } from './resource_attributes.ts';
import { scriptNameOf } from './script_name.ts';

export interface ProcessFacts {
  /** File name of the program; empty when it is not known. */
  executable: string;
  isKernelThread: boolean;
  /** argv, the program's own name first; maybe empty or cut short. */
  args: readonly string[];
  /** Those of ENVIRONMENT_NAMES that are set. */
  environment: ReadonlyMap<string, string>;
  /** Inside the hierarchy: `/system.slice/nginx.service`. */
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

/** GitLab, GitHub Actions, Jenkins, Buildkite. */
const CI_JOB_NAMES: readonly EnvironmentName[] = ['CI_JOB_NAME', 'GITHUB_JOB', 'JOB_NAME', 'BUILDKITE_LABEL'];

/** As many digits as container tools show. */
const SHORT_ID_LENGTH = 12;

/** Never fails, whatever a program made of its arguments and its environment. */
export function serviceNameOf(facts: ProcessFacts): ServiceName {
  if (facts.isKernelThread) return { name: 'kernel', source: 'kernel' };
  for (const [source, text] of candidatesOf(facts)) {
    const name = cleanName(text ?? '');
    if (name !== '') return { name, source };
  }
  return { name: 'unknown', source: 'unknown' };
}

/** The most deliberate first: what someone called the service, then who runs it, then what runs. */
function* candidatesOf({
  executable,
  args,
  environment,
  cgroupPath,
}: ProcessFacts): Generator<[source: ServiceSource, name: string | undefined]> {
  const variable = (name: EnvironmentName) => environment.get(name)?.trim();
  yield ['otel_service_name', variable('OTEL_SERVICE_NAME')];
  const attributes = parseResourceAttributes(variable('OTEL_RESOURCE_ATTRIBUTES') ?? '');
  yield ['otel_resource_attributes', attributes?.get('service.name')?.trim()];
  yield* cgroupCandidates(cgroupPath ?? '');
  for (const name of CI_JOB_NAMES) yield ['ci_job', variable(name)];
  yield ['script', scriptNameOf(executable, args)];
  yield ['executable', executable];
}

/** Who runs in a cgroup, when it is one's own: a container or a unit. */
export function serviceOfCgroup(path: string): string | undefined {
  for (const [, text] of cgroupCandidates(path)) {
    const name = cleanName(text ?? '');
    if (name !== '') return name;
  }
  return undefined;
}

function* cgroupCandidates(path: string): Generator<[source: ServiceSource, name: string | undefined]> {
  const { containerId, unit } = parseCgroupPath(path);
  yield ['container', containerId && shortIdOf(containerId)];
  yield ['systemd_unit', unit?.replace(/\.service$/, '')];
}

/** A container of LXC has a name in place of an id. */
function shortIdOf(containerId: string): string {
  return /^[0-9a-f]{64}$/.test(containerId) ? containerId.slice(0, SHORT_ID_LENGTH) : containerId;
}
