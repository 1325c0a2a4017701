/**
 * Tests which service a process belongs to: the precedence of the sources, and that no input breaks the rules for
 * names.
 */
import fc from 'fast-check';
import { NAME_LENGTH_MAX } from '../../../../agent/attribution/service_name/clean_name.ts';
import {
  chooseServiceName,
  type ProcessFacts,
  type ServiceName,
  type ServiceSource,
} from '../../../../agent/attribution/service_name/service_name.ts';
import { ENVIRONMENT_NAMES, type EnvironmentName } from '../../../../bpf/schema/environment_names.ts';

const ID = '3f4a1c0e9b7d2f6588c1a0b4e7d93c52f1608ab97d3e4c2b5a6f0d1e8c7b9a43';

type Environment = Partial<Record<EnvironmentName, string>>;

interface Given extends Partial<Omit<ProcessFacts, 'environment'>> {
  environment?: Environment;
}

function serviceOf({ environment = {}, ...fields }: Given): ServiceName {
  return chooseServiceName({
    executable: 'dd',
    isKernelThread: false,
    args: [],
    cgroupPath: undefined,
    ...fields,
    environment: new Map(Object.entries(environment)),
  });
}

/** Facts in order of precedence; each one is also tested alone. */
const FACTS: [given: Given, service: ServiceName][] = [
  [{ isKernelThread: true }, { name: 'kernel', source: 'kernel' }],
  [{ environment: { OTEL_SERVICE_NAME: 'cart' } }, { name: 'cart', source: 'otel_service_name' }],
  [
    { environment: { OTEL_RESOURCE_ATTRIBUTES: 'service.version=1,service.name=web%20shop' } },
    { name: 'web shop', source: 'otel_resource_attributes' },
  ],
  [{ cgroupPath: `/system.slice/docker-${ID}.scope/a.service` }, { name: '3f4a1c0e9b7d', source: 'container' }],
  [{ cgroupPath: '/system.slice/nginx.service' }, { name: 'nginx', source: 'systemd_unit' }],
  [{ environment: { CI_JOB_NAME: 'gitlab' } }, { name: 'gitlab', source: 'ci_job' }],
  [{ environment: { GITHUB_JOB: 'github' } }, { name: 'github', source: 'ci_job' }],
  [{ environment: { JOB_NAME: 'jenkins' } }, { name: 'jenkins', source: 'ci_job' }],
  [{ environment: { BUILDKITE_LABEL: 'buildkite' } }, { name: 'buildkite', source: 'ci_job' }],
  [
    { executable: 'node', args: ['node', 'server.js'] },
    { name: 'server', source: 'script' },
  ],
  [{ executable: 'dd' }, { name: 'dd', source: 'executable' }],
  [{ executable: '' }, { name: 'unknown', source: 'unknown' }],
];

test.each(FACTS)('%j is %j', (given, service) => expect(serviceOf(given)).toEqual(service));

test('each source takes precedence over all later ones', () => {
  FACTS.forEach(([, service], i) => {
    const given = FACTS.slice(i)
      .map(([fact]) => fact)
      .toReversed();
    const environment = Object.assign({}, ...given.map((fact) => fact.environment));
    const facts: Given = { ...Object.assign({}, ...given), environment };
    expect(serviceOf(facts)).toEqual(service);
  });
});

test.each<[string, Given, string, ServiceSource]>([
  ['an empty OTEL_SERVICE_NAME', { environment: { OTEL_SERVICE_NAME: '' } }, 'dd', 'executable'],
  ['one of blanks', { environment: { OTEL_SERVICE_NAME: ' \t' } }, 'dd', 'executable'],
  ['one of control characters', { environment: { OTEL_SERVICE_NAME: '\x1b\x07' } }, 'dd', 'executable'],
  ['attributes without a name', { environment: { OTEL_RESOURCE_ATTRIBUTES: 'a=b' } }, 'dd', 'executable'],
  ['an empty one', { environment: { OTEL_RESOURCE_ATTRIBUTES: 'service.name=' } }, 'dd', 'executable'],
  ['malformed ones', { environment: { OTEL_RESOURCE_ATTRIBUTES: 'service.name=a,b' } }, 'dd', 'executable'],
  ['a login session', { cgroupPath: '/user.slice/user-1000.slice/session-2.scope' }, 'dd', 'executable'],
  ['the root cgroup', { cgroupPath: '/' }, 'dd', 'executable'],
  ['a variable that does not matter here', { environment: { TRACEPARENT: '00-1-2-01' } }, 'dd', 'executable'],
  ['a shell without a script', { executable: 'bash', args: ['-bash'] }, 'bash', 'executable'],
  ['an interpreter without arguments', { executable: 'python3.11' }, 'python3.11', 'executable'],
])('%s defers to the later sources', (_, given, name, source) => {
  expect(serviceOf(given)).toEqual({ name, source });
});

test.each<[string, Given, string]>([
  ['of an LXC container is its name', { cgroupPath: '/lxc.payload.web-1' }, 'web-1'],
  ['of a unit instance includes the instance', { cgroupPath: '/system.slice/getty@tty1.service' }, 'getty@tty1'],
  ['is trimmed of surrounding blanks', { environment: { OTEL_SERVICE_NAME: ' web shop\n' } }, 'web shop'],
  ['loses an encoded line feed', { environment: { OTEL_RESOURCE_ATTRIBUTES: 'service.name=a%0Ab' } }, 'ab'],
  ['loses control characters', { environment: { CI_JOB_NAME: 'a\x00b\x1b[0m\x7f\x85c' } }, 'ab[0mc'],
  ['of a program keeps its blanks', { executable: ' dd' }, ' dd'],
  ['is truncated if it is long', { executable: 'é'.repeat(300) }, 'é'.repeat(NAME_LENGTH_MAX)],
  ['is not truncated within a character', { executable: `x${'🧾'.repeat(200)}` }, `x${'🧾'.repeat(127)}`],
  ['loses half a character', { executable: `x${'🧾'.repeat(200)}`.slice(1).slice(0, 255) }, '🧾'.repeat(127)],
])('the name %s', (_, given, name) => expect(serviceOf(given).name).toBe(name));

test('any process has a short, clean name, and its source is one that was present', () => {
  const text = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 400 }),
    fc.constantFrom('', ' ', 'service.name=a', '\0'),
  );
  const facts = fc.record({
    executable: fc.oneof(text, fc.constantFrom('node', 'java', 'sh')),
    isKernelThread: fc.boolean(),
    args: fc.array(text),
    environment: fc.dictionary(fc.constantFrom(...ENVIRONMENT_NAMES), text),
    cgroupPath: fc.option(fc.oneof(text, fc.constantFrom(`/docker/${ID}`, '/a.service')), { nil: undefined }),
  });
  const isFrom: Record<ServiceSource, (given: Given, name: string) => boolean> = {
    kernel: ({ isKernelThread }) => isKernelThread === true,
    otel_service_name: ({ environment }) => environment?.OTEL_SERVICE_NAME !== undefined,
    otel_resource_attributes: ({ environment }) => environment?.OTEL_RESOURCE_ATTRIBUTES !== undefined,
    container: ({ cgroupPath }, name) => cgroupPath?.includes(name) === true,
    systemd_unit: ({ cgroupPath }) => cgroupPath?.includes('.service') === true,
    ci_job: ({ environment }) => Object.keys(environment ?? {}).some((variable) => /JOB|LABEL/.test(variable)),
    script: ({ args }) => args !== undefined && args.length > 1,
    executable: ({ executable }, name) => executable !== '' && name.length <= executable!.length,
    unknown: ({ executable }) => !/[^\p{Cc}\p{Cs}]/u.test(executable!),
  };
  fc.assert(
    fc.property(facts, (given) => {
      const { name, source } = serviceOf(given);
      expect(name).not.toBe('');
      expect(name.length).toBeLessThanOrEqual(NAME_LENGTH_MAX);
      expect(name).not.toMatch(/[\p{Cc}\p{Cs}]/u);
      expect(isFrom[source](given, name)).toBe(true);
    }),
    { numRuns: 500 },
  );
});
