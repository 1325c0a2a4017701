/** Tests that Go programs are recognized by a section that their linker writes. */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isGoProgram } from '../../../agent/attribution/http_processes.ts';
import { AS_NOBODY } from '../../unprivileged.ts';

const folder = mkdtempSync(join(tmpdir(), 'kreplay-go-'));

afterAll(() => rmSync(folder, { recursive: true }));

/** Runs a program with a section of this name, and returns whether it is taken for a Go program. */
async function isGoWith(section: string, gccOptions: readonly string[] = []): Promise<boolean | undefined> {
  const program = join(folder, 'program');
  const source = `#include <unistd.h>\n__attribute__((used, section("${section}"))) int info = 1;\nint main() { pause(); }\n`;
  writeFileSync(`${program}.c`, source);
  execFileSync('gcc', [...gccOptions, '-o', program, `${program}.c`]);
  const child = spawn(program);
  await once(child, 'spawn');
  const isGo = isGoProgram(child.pid!);
  child.kill();
  await once(child, 'exit');
  return isGo;
}

test('a program with the section of the Go linker is a Go program, stripped or not; another is not', async () => {
  expect(await isGoWith('.go.buildinfo')).toBe(true);
  expect(await isGoWith('.go.buildinfo', ['-s'])).toBe(true);
  expect(await isGoWith('.go.buildinf')).toBe(false);
});

test('the result is undefined for an exited process and for a kernel thread', () => {
  expect(isGoProgram(2 ** 22 + 1)).toBeUndefined();
  expect(isGoProgram(2)).toBeUndefined();
  expect(isGoProgram(process.pid)).toBe(false);
});

/**
 * It may be a Go program, whose goroutines change threads, so that requests would be attributed to the wrong thread.
 */
test("requests of another user's process that cannot be inspected are not recorded", () => {
  const source = `
    import { createHttpProcesses } from './build/js/agent/attribution/http_processes.js';
    const watched = [];
    const reading = { watch: (pid) => watched.push(pid), unwatch: () => undefined };
    const processes = createHttpProcesses(reading, ['*']);
    for (const pid of [${process.pid}, process.pid])
      processes.consider({ pid, startNs: 0, execId: 0, stackStart: 0 }, 'service', 'program');
    console.log(JSON.stringify(watched) === JSON.stringify([process.pid]));`;
  const [file, ...args] = [...AS_NOBODY, process.execPath, '--input-type=module', '-e', source];
  expect(execFileSync(file, args, { cwd: join(import.meta.dirname, '../../..'), encoding: 'utf8' })).toBe('true\n');
});
