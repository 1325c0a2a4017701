/**
 * Tests what a program was started with: the requested variables, and /proc where the kernel side's copy is incomplete.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import fc from 'fast-check';
import { type RunningProgram, readProcessProgram } from '../../../agent/attribution/proc_program.ts';
import { createPrograms, parseEnvironment, splitStrings } from '../../../agent/attribution/programs.ts';
import { PROGRAM_FLAGS } from '../../../bpf/schema/definitions.ts';

test('arguments and variables are split at their NULs', () => {
  const programs = createPrograms();
  const definition = { program_id: 64, flags: PROGRAM_FLAGS.PROGRAM_ENVIRONMENT_CUT, executable: 'sh' };
  programs.define(definition, 'sh\0-c\0\0echo a=b', 'JOB_NAME=a=b\0OTEL_SERVICE_NAME=\0');
  expect(programs.get(64)).toEqual({
    executable: 'sh',
    args: ['sh', '-c', '', 'echo a=b'],
    environment: new Map([
      ['JOB_NAME', 'a=b'],
      ['OTEL_SERVICE_NAME', ''],
    ]),
    environmentCut: true,
  });
  expect(programs.get(65)).toBeUndefined();
});

test('of a variable that is set twice the first value counts, and only requested variables are kept', () => {
  const text = 'JOB_NAME=first\0SECRET=x\0JOB_NAME=second\0job_name=third\0JOB_NAME\0=\0GITHUB_JOBS=x\0';
  expect([...parseEnvironment(text)]).toEqual([['JOB_NAME', 'first']]);
});

test('any text is split', () => {
  fc.assert(
    fc.property(fc.array(fc.string({ unit: 'binary' }).map((text) => text.replaceAll('\0', ''))), (texts) => {
      const last = texts.at(-1);
      expect(splitStrings(texts.map((text) => `${text}\0`).join(''))).toEqual(texts);
      if (last) expect(splitStrings(texts.join('\0'))).toEqual(texts);
    }),
  );
});

describe('/proc', () => {
  /** The kernel side knows the start more exactly: /proc has ticks of ten milliseconds. */
  function running(pid: number): RunningProgram {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return { pid, startNs: Number(fields[19]) * 1e7 + 1, execId: 1, stackStart: Number(fields[25]) };
  }

  test('describes the program that a process runs, but not another one with the same PID', async () => {
    const child = spawn('/bin/sleep', ['60'], { env: { CI_JOB_NAME: 'build', SECRET: 'x' } });
    await once(child, 'spawn');
    const [pid, program] = [child.pid!, running(child.pid!)];
    expect(readProcessProgram(pid, program)).toEqual({
      executable: 'sleep',
      args: ['/bin/sleep', '60'],
      environment: new Map([['CI_JOB_NAME', 'build']]),
      environmentCut: false,
    });
    expect(readProcessProgram(pid, { ...program, startNs: program.startNs + 2e7 })).toBeUndefined();
    child.kill();
    await once(child, 'exit');
    expect(readProcessProgram(pid, program)).toBeUndefined();
  });

  test('does not describe the next program that the process executes', async () => {
    const child = spawn('/bin/sh', ['-c', 'read line; exec sleep 60'], { stdio: ['pipe', 'inherit', 'inherit'] });
    await once(child, 'spawn');
    const program = running(child.pid!);
    expect(readProcessProgram(child.pid!, program)?.args).toEqual(['/bin/sh', '-c', 'read line; exec sleep 60']);
    child.stdin.write('go\n');
    while (readProcessProgram(child.pid!)?.executable !== 'sleep') await sleep(10);
    expect(readProcessProgram(child.pid!, program)).toBeUndefined();
    child.kill();
  });
});
