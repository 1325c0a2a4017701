/** Determines which service a process belongs to, from what is known without asking the process. */

import type { EnvironmentName } from '../../../bpf/schema/environment_names.ts';
import { parseCgroupPath } from './cgroup_path.ts';
import { cleanName } from './clean_name.ts';
import { parseResourceAttributes } from './resource_attributes.ts';
import { scriptNameOf } from './script_name.ts';

export interface ProcessFacts {
  /** File name of the program; empty if it is unknown. */
  executable: string;
  isKernelThread: boolean;
  /** argv, the program's own name first; may be empty or cut short. */
  args: readonly string[];
  /** The variables of ENVIRONMENT_NAMES that are set. */
  environment: ReadonlyMap<string, string>;
  /** Path inside the hierarchy, such as `/system.slice/nginx.service`. */
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

/** Container tools show this many digits. */
const SHORT_ID_LENGTH = 12;

/** Never fails, whatever a program did to its arguments and its environment. */
export function serviceNameOf(facts: ProcessFacts): ServiceName {
  if (facts.isKernelThread) return { name: 'kernel', source: 'kernel' };
  for (const [source, text] of candidatesOf(facts)) {
    const name = cleanName(text ?? '');
    if (name !== '') return { name, source };
  }
  return { name: 'unknown', source: 'unknown' };
}

/** Yields the most deliberate name first: an explicit service name, then what runs the program, then the program. */
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

/** Name of the container or unit that has a cgroup to itself; undefined for other cgroups. */
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

/** An LXC container has a name in place of an id. */
function shortIdOf(containerId: string): string {
  return /^[0-9a-f]{64}$/.test(containerId) ? containerId.slice(0, SHORT_ID_LENGTH) : containerId;
}
