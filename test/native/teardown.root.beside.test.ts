/*
 * Tests ends without cleanup: the process exits, the worker is terminated, the object is garbage collected. Afterwards
 * the kernel must have released everything. Each test uses a child process, so that a crash only ends the child.
 */
import { execFile, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { AS_NOBODY } from '../unprivileged.ts';
import { compileBpf, root } from './compile.ts';

const run = promisify(execFile);
const STAGES = ['open', 'loaded', 'attached', 'reading'] as const;

let file: string;

beforeAll(() => {
  file = compileBpf('hooks');
});

/** Source that brings `object` to a stage. */
function reach(stage: (typeof STAGES)[number]): string {
  const steps = ['object.load();', 'object.attach();', "ring = object.ring('events'); ring.drain(new Uint8Array(64));"];
  return `
    import { BpfObject } from 'libbpf-ts';
    let ring;
    const object = BpfObject.open(${JSON.stringify(file)});
    ${steps.slice(0, STAGES.indexOf(stage)).join('\n')}
    const id = ${stage === 'open' ? 0 : 'object.programStats()[0].id'};`;
}

/** Counts the BPF resources of this process: file descriptors and mappings. */
const HELD = `
    const held = () =>
      readdirSync('/proc/self/fd').filter((fd) => {
        try { return /bpf|btf/.test(readlinkSync('/proc/self/fd/' + fd)); } catch { return false; }
      }).length + readFileSync('/proc/self/maps', 'utf8').split('\\n').filter((line) => line.includes('bpf-map')).length;`;

function node(source: string, ...flags: string[]) {
  return run(process.execPath, [...flags, '--input-type=module', '-e', source], { cwd: root });
}

/** Whether the kernel has freed the program; it does so after a grace period, hence the retries. */
function isGone(id: number): boolean {
  for (let turn = 0; turn < 200; turn++) {
    if (spawnSync('bpftool', ['prog', 'show', 'id', String(id)]).status !== 0) return true;
  }
  return false;
}

test.each(STAGES)('process.exit() while %s', async (stage) => {
  const { stdout } = await node(`${reach(stage)} console.log(id); process.exit(0);`);
  if (stage !== 'open') expect(isGone(Number(stdout))).toBe(true);
});

test('an uncaught exception while attached', async () => {
  const failed = node(`${reach('attached')} console.log(id); throw new Error('on purpose');`);
  await expect(failed).rejects.toMatchObject({ code: 1 });
  const { stdout } = (await failed.catch((error) => error)) as { stdout: string };
  expect(isGone(Number(stdout))).toBe(true);
});

test.each(STAGES)('worker.terminate() while %s', async (stage) => {
  const worker = `${reach(stage)}
    import { parentPort } from 'node:worker_threads';
    parentPort.postMessage(id);
    ${stage === 'reading' ? 'const buffer = new Uint8Array(64); for (;;) ring.drain(buffer);' : 'setInterval(() => {}, 1000);'}`;
  const { stdout } = await node(`
    import { Worker } from 'node:worker_threads';
    import { once } from 'node:events';
    import { readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs';
    ${HELD}
    const source = new URL('data:text/javascript,' + encodeURIComponent(${JSON.stringify(worker)}.replace(
      "'libbpf-ts'", JSON.stringify(import.meta.resolve('libbpf-ts')))));
    const counts = [];
    for (let turn = 0; turn < 3; turn++) {
      const worker = new Worker(source);
      await once(worker, 'message');
      counts.push(held() > 0);
      await worker.terminate();
      counts.push(held());
    }
    console.log(JSON.stringify(counts));`);
  const whileAlive = stage !== 'open';
  expect(JSON.parse(stdout)).toEqual([whileAlive, 0, whileAlive, 0, whileAlive, 0]);
});

test('process.exit() while a worker is in the middle of a drain', async () => {
  const worker = `${reach('reading')}
    import { parentPort } from 'node:worker_threads';
    import { ftruncateSync, openSync } from 'node:fs';
    // Calls that the object records, so that there is always something to drain.
    const fd = openSync(${JSON.stringify(`${root}/build/test/truncated`)}, 'w');
    const buffer = new Uint8Array(1 << 16);
    for (let turn = 0; ; turn++) {
      ftruncateSync(fd, 0);
      ring.drain(buffer);
      if (turn === 1000) parentPort.postMessage(id);
    }`;
  for (let turn = 0; turn < 5; turn++) {
    const { stdout } = await node(`
      import { Worker } from 'node:worker_threads';
      import { once } from 'node:events';
      import { writeSync } from 'node:fs';
      const source = new URL('data:text/javascript,' + encodeURIComponent(${JSON.stringify(worker)}.replace(
        "'libbpf-ts'", JSON.stringify(import.meta.resolve('libbpf-ts')))));
      const [id] = await once(new Worker(source), 'message');
      writeSync(1, String(id));
      process.exit(0);`);
    expect(isGone(Number(stdout))).toBe(true);
  }
});

test('close() releases everything, and so does the garbage collector', async () => {
  const { stdout } = await node(
    `
    import { BpfObject } from 'libbpf-ts';
    import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
    ${HELD}
    function make() {
      const object = BpfObject.open(${JSON.stringify(file)});
      object.load();
      object.setRunStats(true);
      object.attach();
      return [object, object.ring('events')];
    }
    const counts = [];
    const [object] = make();
    counts.push(held() > 0);
    object.close();
    counts.push(held());
    make();
    counts.push(held() > 0);
    for (let turn = 0; turn < 50 && held() > 0; turn++) {
      globalThis.gc();
      await new Promise(setImmediate);
    }
    counts.push(held());
    console.log(JSON.stringify(counts));`,
    '--expose-gc',
  );
  expect(JSON.parse(stdout)).toEqual([true, 0, true, 0]);
});

test('two workers load, attach and drain concurrently with this thread', async () => {
  const worker = `${reach('reading')}
    for (let turn = 0; turn < 20; turn++) {
      const again = BpfObject.open(${JSON.stringify(file)}); again.load(); again.attach(); again.close();
      ring.drain(new Uint8Array(64));
    }
    object.close();`;
  const { stdout } = await node(`
    import { Worker } from 'node:worker_threads';
    import { once } from 'node:events';
    const source = new URL('data:text/javascript,' + encodeURIComponent(${JSON.stringify(worker)}.replace(
      "'libbpf-ts'", JSON.stringify(import.meta.resolve('libbpf-ts')))));
    const ends = [new Worker(source), new Worker(source)].map((worker) => once(worker, 'exit'));
    await import(source);
    console.log(JSON.stringify((await Promise.all(ends)).flat()));`);
  expect(JSON.parse(stdout)).toEqual([0, 0]);
});

test('nothing is written to stderr when the kernel refuses an operation', async () => {
  const rejected = compileBpf('rejected');
  const { stdout, stderr } = await node(`
    import { BpfObject } from 'libbpf-ts';
    try { BpfObject.open(${JSON.stringify(rejected)}).load(); } catch (error) { console.log(error.code); }`);
  expect([stdout, stderr]).toEqual(['EACCES\n', '']);
});

test('without privileges load() and features() throw EPERM', () => {
  const source = `
    import { BpfObject, features } from 'libbpf-ts';
    import { readFileSync } from 'node:fs';
    const object = BpfObject.open(readFileSync(0));
    try { object.load(); } catch (error) { console.log(error.name, error.code, error.errno, error.syscall); }
    try { features(); } catch (error) { console.log(error.name, error.code, error.errno, error.syscall); }`;
  const [command, ...args] = [...AS_NOBODY, process.execPath, '--input-type=module', '-e', source] as const;
  const { stdout, stderr } = spawnSync(command, args, { cwd: root, input: readFileSync(file), encoding: 'utf8' });
  expect([stdout, stderr]).toEqual(['BpfError EPERM 1 bpf_object__load\nBpfError EPERM 1 bpf_map_create\n', '']);
});
