/** Tests services of processes, and which ones are the recorder's own, with real programs that try to pass for it. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { RunningProgram } from '../../../agent/attribution/proc_program.ts';
import {
  createOwnProcessCheck,
  createProcesses,
  type ProcessDefinition,
  type ProcessesOptions,
} from '../../../agent/attribution/processes.ts';
import { createPrograms, type Program } from '../../../agent/attribution/programs.ts';
import type { ServiceRule } from '../../../agent/attribution/service_name/rules.ts';
import { PROGRAM_FLAGS } from '../../../bpf/schema/definitions.ts';
import { processDefinition } from './attributed.ts';
import { createNames } from './names.ts';

function createTables(isOwn: ProcessesOptions['isOwn'] = () => false, rules: readonly ServiceRule[] = []) {
  const names = createNames();
  const oldestIds = { name: 1 };
  const programs = createPrograms();
  /** /proc's answer for any process. */
  const proc: { program: Program | undefined } = { program: undefined };
  const processes = createProcesses({
    programs,
    readProcessProgram: () => proc.program,
    cgroups: {
      define: () => undefined,
      findPath: (cgroupId) => (cgroupId === CGROUP ? '/system.slice/nginx.service' : undefined),
      readProcessPath: () => undefined,
    },
    intern: names.intern,
    oldestIds,
    isOwn,
    rules,
  });
  return { names, oldestIds, programs, proc, processes };
}

const CGROUP = 77;
const PROGRAM = 64;

describe('the service of a process', () => {
  function serviceOf(fields: Partial<ProcessDefinition>, { flags = 0, proc }: { flags?: number; proc?: Program } = {}) {
    const { names, programs, processes, ...tables } = createTables();
    tables.proc.program = proc;
    programs.define({ program_id: PROGRAM, flags, executable: 'python3.11' }, 'python3\0/srv/pay.py\0-v\0', '');
    programs.define({ program_id: PROGRAM + 1, flags, executable: 'dd' }, 'dd\0', 'OTEL_SERVICE_NAME=copy\0');
    processes.define(processDefinition(fields));
    return names.text(processes.internService(processes.get(256)));
  }

  const inProc: Program = {
    executable: 'dd',
    args: ['dd'],
    environment: new Map([['CI_JOB_NAME', 'build']]),
    environmentCut: false,
  };

  test.each<[string, Partial<ProcessDefinition>, string]>([
    ['is the name of its script', { program_id: PROGRAM }, 'pay'],
    ['is what the program was started with, before the script', { program_id: PROGRAM + 1 }, 'copy'],
    ['is its unit, before the script', { program_id: PROGRAM, cgroup_id: CGROUP }, 'nginx'],
    ['is the kernel for a kernel thread', { kernel_thread: 1 }, 'kernel'],
    ['is the kernel for a kernel thread in any cgroup', { kernel_thread: 1, cgroup_id: CGROUP }, 'kernel'],
    ['is its unit if its program was lost', { program_id: 5, cgroup_id: CGROUP }, 'nginx'],
    ['is unknown if nothing is known of it', { program_id: 5 }, 'unknown'],
    ['is unknown if its definition was lost', { process_id: 512 }, 'unknown'],
  ])('%s', (_, fields, service) => expect(serviceOf(fields)).toBe(service));

  test('/proc is read only when the program was lost or its environment was truncated', () => {
    expect(serviceOf({ program_id: 5 }, { proc: inProc })).toBe('build');
    expect(serviceOf({ program_id: PROGRAM }, { flags: PROGRAM_FLAGS.PROGRAM_ENVIRONMENT_CUT, proc: inProc })).toBe(
      'build',
    );
    expect(serviceOf({ program_id: PROGRAM }, { flags: PROGRAM_FLAGS.PROGRAM_ENVIRONMENT_CUT })).toBe('pay');
    expect(serviceOf({ program_id: PROGRAM }, { proc: inProc })).toBe('pay');
    expect(serviceOf({ kernel_thread: 1 }, { proc: inProc })).toBe('kernel');
  });
});

test('the name that an operator sets takes precedence, and stays when the process publishes another one', () => {
  const { names, programs, processes } = createTables(undefined, [{ service: 'pay', executable: /^python/ }]);
  programs.define({ program_id: PROGRAM, flags: 0, executable: 'python3' }, '', 'OTEL_SERVICE_NAME=x\0');
  programs.define({ program_id: PROGRAM + 1, flags: 0, executable: 'java' }, '', 'OTEL_SERVICE_NAME=x\0');
  processes.define(processDefinition({ process_id: 256, program_id: PROGRAM, pid: 10 }));
  processes.define(processDefinition({ process_id: 512, program_id: PROGRAM + 1, pid: 11 }));
  processes.define(processDefinition({ process_id: 768, program_id: PROGRAM + 1, pid: 11, exec_id: 2 }));
  const services = () => [256, 512, 768].map((id) => names.text(processes.internService(processes.get(id))));
  expect(services()).toEqual(['pay', 'x', 'x']);
  const { exec_id: execId, stack_start: stackStart } = processDefinition({});
  for (const pid of [10, 11]) processes.rename({ pid, startNs: 0, execId, stackStart }, 'published');
  expect(services()).toEqual(['pay', 'published', 'x']);
});

test('an index that the recording has dropped is requested again', () => {
  const { names, oldestIds, programs, processes } = createTables();
  programs.define({ program_id: PROGRAM, flags: 0, executable: 'dd' }, '', '');
  processes.define(processDefinition({ program_id: PROGRAM }));
  const first = processes.internService(processes.get(256));
  names.forget();
  oldestIds.name = first + 1;
  expect(processes.internService(processes.get(256))).toBeGreaterThan(first);
  expect(names.text(processes.internService(processes.get(256)))).toBe('dd');
});

test('a process that is defined again is kept from then on, or left out, as it is then', () => {
  const told: string[] = [];
  let wanted = 'none';
  const programs = createPrograms();
  const processes = createProcesses({
    programs,
    readProcessProgram: () => undefined,
    cgroups: { define: () => undefined, findPath: () => undefined, readProcessPath: () => undefined },
    ...{ intern: createNames().intern, oldestIds: { name: 1 }, isOwn: () => false },
    wants: ({ service }) => service === wanted,
    onUnwanted: (id) => told.push(`${id} is left out`),
    onWantedAgain: (id) => told.push(`${id} is kept`),
  });
  programs.define({ program_id: PROGRAM, flags: 0, executable: 'dd' }, '', '');
  for (const service of ['none', 'dd', 'dd', 'none']) {
    wanted = service;
    processes.define(processDefinition({ program_id: PROGRAM }));
  }
  expect(told).toEqual(['256 is left out', '256 is kept', '256 is left out']);
});

test('a process belongs to the recorder when the check finds so, and a kernel thread never does', () => {
  const asked: number[][] = [];
  const { processes } = createTables(({ pid }, uid) => asked.push([pid, uid]) > 0);
  processes.define(processDefinition({ process_id: 256, pid: 10, uid: 1001 }));
  processes.define(processDefinition({ process_id: 512, pid: 2, kernel_thread: 1 }));
  expect([256, 512, 768].map((id) => processes.get(id).own)).toEqual([true, false, false]);
  expect(asked).toEqual([[10, 1001]]);
});

/** The program that a process runs now; that of none if it has exited. */
function runningNow(pid: number): RunningProgram {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat
      .slice(stat.lastIndexOf(')') + 2)
      .split(' ')
      .map(Number);
    return { pid, startNs: fields[19]! * 1e7, execId: 1, stackStart: fields[25]! };
  } catch {
    return { pid, startNs: 0, execId: 0, stackStart: 0 };
  }
}

describe("the recorder's own process", () => {
  const OWN_UID = 1001;
  const OTHER_UID = 1002;
  const children: ChildProcess[] = [];
  let folder: string;
  let script: string;
  let isOwnProgram: ProcessesOptions['isOwn'];
  const isOwn = (pid: number, uid: number) => isOwnProgram(runningNow(pid), uid);

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'kreplay-own-'));
    for (const name of ['real', 'fake']) {
      mkdirSync(join(folder, name));
      writeFileSync(join(folder, name, 'kreplay.js'), 'process.stdin.resume();\n');
    }
    script = join(folder, 'real/kreplay.js');
    isOwnProgram = createOwnProcessCheck(script, OWN_UID);
  });

  afterEach(async () => {
    for (const child of children.splice(0)) {
      child.kill('SIGKILL');
      await once(child, 'exit');
    }
  });

  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  /** Runs a program until the test is over; its arguments can be read when this resolves. */
  async function run(args: readonly string[], program = process.execPath): Promise<number> {
    const child = spawn(program, args, { cwd: join(folder, 'real'), stdio: ['pipe', 'ignore', 'ignore'] });
    children.push(child);
    await once(child, 'spawn');
    return child.pid!;
  }

  test.each([
    ['agent', []],
    ['daemon', []],
    ['up', []],
    ['agent', ['--disable-warning=ExperimentalWarning']],
  ])('includes kreplay %s, run by root or by the same user: %p', async (command, options) => {
    const pid = await run([...options, script, command, '--data', 'x']);
    expect([0, OWN_UID, OTHER_UID].map((uid) => isOwn(pid, uid))).toEqual([true, true, false]);
  });

  test('includes kreplay that was started by a relative path', async () => {
    expect(isOwn(await run(['kreplay.js', 'daemon']), OWN_UID)).toBe(true);
    expect(isOwn(await run(['../real/kreplay.js', 'daemon']), OWN_UID)).toBe(true);
  });

  test.each<[string, () => string[]]>([
    ['another script of the same name', () => [join(folder, 'fake/kreplay.js'), 'agent']],
    ['another script of the same name, by a relative path', () => ['../fake/kreplay.js', 'agent']],
    ['another script that is given kreplay as an argument', () => [join(folder, 'fake/kreplay.js'), script, 'agent']],
    ['another command of kreplay', () => [script, 'events']],
    ['no command', () => [script]],
    ['a command whose name only starts the same', () => [script, 'agents']],
  ])('does not include %s', async (_, args) => {
    expect(isOwn(await run(args()), 0)).toBe(false);
  });

  test('does not include another program with the same arguments', async () => {
    expect(isOwn(await run(['-f', script, 'agent'], '/usr/bin/tail'), 0)).toBe(false);
  });

  test('does not include an exited process whose number it has', async () => {
    const pid = await run([script, 'agent']);
    const running = runningNow(pid);
    expect(isOwnProgram(running, 0)).toBe(true);
    // Until its exec, a forked child runs its parent's program, whose stack begins elsewhere.
    expect(isOwnProgram({ ...running, stackStart: 4096 }, 0)).toBe(true);
    expect(isOwnProgram({ ...running, startNs: running.startNs - 1e9 }, 0)).toBe(false);
  });

  test('does not include an exited process', async () => {
    const pid = await run([script, 'agent']);
    const [child] = children.splice(0);
    child!.kill('SIGKILL');
    await once(child!, 'exit');
    expect(isOwn(pid, 0)).toBe(false);
  });
});
