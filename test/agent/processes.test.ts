/** Services of processes, and which ones are the recorder's own: real programs are run to see who passes for one. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createOwnProcessCheck, createProcesses, type ProcessDefinition } from '../../agent/attribution/processes.ts';
import { createNames } from './names.ts';

function definition(fields: Partial<ProcessDefinition>): ProcessDefinition {
  return { process_id: 256, pid: 10, uid: 0, kernel_thread: 0, executable: 'dd', ...fields };
}

describe('service', () => {
  function serviceOf(fields: Partial<ProcessDefinition>): string | null {
    const names = createNames();
    const processes = createProcesses({ intern: names.intern, oldestIds: { name: 1 }, isOwn: () => false });
    processes.define(definition(fields));
    return names.text(processes.of(256).serviceId);
  }

  test.each<[string, Partial<ProcessDefinition>, string]>([
    ["a program's is its file name", {}, 'dd'],
    ["a kernel thread's is the kernel", { kernel_thread: 1, executable: '' }, 'kernel'],
    ['a kernel thread stays one, whatever its name', { kernel_thread: 1, executable: 'dd' }, 'kernel'],
    ['of a program without a name it is unknown', { executable: '' }, 'unknown'],
    ['of a process whose definition was lost it is unknown', { process_id: 512 }, 'unknown'],
  ])('%s', (_, fields, service) => expect(serviceOf(fields)).toBe(service));
});

test('a number that has become too old for the recording is asked for again', () => {
  const names = createNames();
  const oldestIds = { name: 1 };
  const processes = createProcesses({ intern: names.intern, oldestIds, isOwn: () => false });
  processes.define(definition({}));
  const first = processes.of(256).serviceId;
  names.forget();
  oldestIds.name = first + 1;
  expect(processes.of(256).serviceId).toBeGreaterThan(first);
  expect(names.text(processes.of(256).serviceId)).toBe('dd');
});

test('a process is own when the check says so, and a kernel thread never is', () => {
  const asked: number[][] = [];
  const isOwn = (pid: number, uid: number) => asked.push([pid, uid]) > 0;
  const processes = createProcesses({ intern: () => 1, oldestIds: { name: 1 }, isOwn });
  processes.define(definition({ process_id: 256, pid: 10, uid: 1001 }));
  processes.define(definition({ process_id: 512, pid: 2, kernel_thread: 1 }));
  expect([256, 512, 768].map((id) => processes.of(id).own)).toEqual([true, false, false]);
  expect(asked).toEqual([[10, 1001]]);
});

describe('own process', () => {
  const OWN_UID = 1001;
  const OTHER_UID = 1002;
  const children: ChildProcess[] = [];
  let folder: string;
  let script: string;
  let isOwn: (pid: number, uid: number) => boolean;

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'kreplay-own-'));
    for (const name of ['real', 'fake']) {
      mkdirSync(join(folder, name));
      writeFileSync(join(folder, name, 'kreplay.js'), 'process.stdin.resume();\n');
    }
    script = join(folder, 'real/kreplay.js');
    isOwn = createOwnProcessCheck(script, OWN_UID);
  });

  afterEach(async () => {
    for (const child of children.splice(0)) {
      child.kill('SIGKILL');
      await once(child, 'exit');
    }
  });

  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  /** Runs until the test is over; its arguments can be read when this resolves. */
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
  ])('kreplay %s is, run by root or by the own user: %p', async (command, options) => {
    const pid = await run([...options, script, command, '--data', 'x']);
    expect([0, OWN_UID, OTHER_UID].map((uid) => isOwn(pid, uid))).toEqual([true, true, false]);
  });

  test('kreplay by a relative path is', async () => {
    expect(isOwn(await run(['kreplay.js', 'daemon']), OWN_UID)).toBe(true);
    expect(isOwn(await run(['../real/kreplay.js', 'daemon']), OWN_UID)).toBe(true);
  });

  test.each<[string, () => string[]]>([
    ['another script of the same name', () => [join(folder, 'fake/kreplay.js'), 'agent']],
    ['another script of the same name, by a relative path', () => ['../fake/kreplay.js', 'agent']],
    ['another script that is given ours as an argument', () => [join(folder, 'fake/kreplay.js'), script, 'agent']],
    ['another command of ours', () => [script, 'events']],
    ['no command', () => [script]],
    ['a command that only begins alike', () => [script, 'agents']],
  ])('%s is not', async (_, args) => {
    expect(isOwn(await run(args()), 0)).toBe(false);
  });

  test('another program with the same arguments is not', async () => {
    expect(isOwn(await run(['-f', script, 'agent'], '/usr/bin/tail'), 0)).toBe(false);
  });

  test('a process that is gone is not', async () => {
    const pid = await run([script, 'agent']);
    const [child] = children.splice(0);
    child!.kill('SIGKILL');
    await once(child!, 'exit');
    expect(isOwn(pid, 0)).toBe(false);
  });
});
