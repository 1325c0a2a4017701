/**
 * Tests the thread-local variable of real programs, built in every way that a linker supports: the address found is the
 * one that the thread prints, in the main thread and in others, and the pointer read there is the thread's record.
 */
import { closeSync, copyFileSync, openSync, readSync, rmSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createThreadLocalResolver, type ThreadLocal } from '../../../../agent/attribution/otel/thread_local.ts';
import { compile, type Running, start, stopAll } from './programs.ts';

const PROGRAM = 'thread_context_program';
const VARIABLE = 'thread_context_variable';
const ACCESS = 'thread_context_access';
const EXPORTED = '-Wl,--export-dynamic-symbol=otel_thread_ctx_v1';
const GNU2 = '-mtls-dialect=gnu2';
const GNU = '-mtls-dialect=gnu';

afterEach(stopAll);

function library(
  name: string,
  options: readonly string[] = [],
  sources: readonly string[] = [VARIABLE, ACCESS],
): string {
  return compile(`lib${name}.so`, sources, ['-shared', '-fPIC', ...options]);
}

function linkedWith(name: string, file: string, options: readonly string[] = []): string {
  return compile(name, [PROGRAM], [file, ...options]);
}

const loader = () => compile('loader', [PROGRAM], ['-DLOADS_LIBRARY']);

class Memory {
  readonly #file: number;

  constructor(pid: number) {
    this.#file = openSync(`/proc/${pid}/mem`, 'r');
  }

  u64(address: number): number {
    const bytes = Buffer.alloc(8);
    expect(readSync(this.#file, bytes, 0, 8, address)).toBe(8);
    return Number(bytes.readBigUInt64LE());
  }

  close(): void {
    closeSync(this.#file);
  }
}

/** Computes the address as the kernel side does. */
function addressIn(memory: Memory, threadPointer: number, access: ThreadLocal): number {
  if (access.mode === 'static') return threadPointer + access.offset;
  const vector = memory.u64(threadPointer + 8);
  return memory.u64(vector + 16 * access.moduleId) + access.offset;
}

/** Resolves the variable, and compares it with the output of every thread of the program. */
function verified({ pid, lines }: Running): ThreadLocal {
  const { value, reason } = createThreadLocalResolver().resolve(pid);
  expect(reason).toBeUndefined();
  const memory = new Memory(pid);
  const threads = lines.map((line) => line.split(' ').map((word) => Number.parseInt(word, 16)));
  expect(threads).toHaveLength(5);
  for (const [threadPointer, variable, record] of threads) {
    const address = addressIn(memory, threadPointer!, value!);
    expect(address.toString(16)).toBe(variable!.toString(16));
    expect(memory.u64(address).toString(16)).toBe(record!.toString(16));
  }
  memory.close();
  return value!;
}

describe('the program itself defines the variable', () => {
  test.each<[string, readonly string[]]>([
    ['any program', []],
    ['TLS descriptors', [GNU2]],
    ['at a fixed address', ['-no-pie', '-fno-pie']],
    ['a block that is aligned to 64 bytes', ['-DTLS_BYTES=100', '-DTLS_ALIGN=64']],
    ['a block that is aligned to a page', ['-DTLS_BYTES=5000', '-DTLS_ALIGN=4096']],
    ['a block of 200 KB', ['-DTLS_BYTES=204800']],
    ['gold', ['-fuse-ld=gold', '-Wl,--export-dynamic']],
    ['the hash table of System V', ['-Wl,--hash-style=sysv']],
    ['position-independent code that is not made simpler', [GNU2, '-fPIC', '-Wl,--no-relax']],
  ])('%s', async (name, options) => {
    const exported = options.includes('-fuse-ld=gold') ? [] : [EXPORTED];
    const program = compile(
      `program_${name.replace(/\W+/g, '_')}`,
      [PROGRAM, VARIABLE, ACCESS],
      [...options, ...exported],
    );
    expect(verified(await start(program))).toMatchObject({ mode: 'static' });
  });

  test('and is started by naming it to the dynamic linker', async () => {
    const program = compile('program_by_linker', [PROGRAM, VARIABLE, ACCESS], [EXPORTED]);
    expect(verified(await start('/lib64/ld-linux-x86-64.so.2', [program]))).toMatchObject({ mode: 'static' });
  });
});

describe('a library that the program is linked with defines the variable', () => {
  test.each<[string, readonly string[], ThreadLocal['mode']]>([
    ['TLS descriptors', [GNU2], 'static'],
    ['the traditional dialect', [GNU], 'dynamic'],
    ['initial-exec', ['-ftls-model=initial-exec'], 'static'],
    ['TLS descriptors, bound within the library', [GNU2, '-Wl,-Bsymbolic'], 'static'],
    ['the traditional dialect, bound within the library', [GNU, '-Wl,-Bsymbolic'], 'dynamic'],
    ['initial-exec, bound within the library', ['-ftls-model=initial-exec', '-Wl,-Bsymbolic'], 'static'],
    ['TLS descriptors that are bound when they are used', [GNU2, '-Wl,-z,lazy'], 'static'],
    ['200 KB of thread-local storage', [GNU2, '-DTLS_BYTES=204800'], 'static'],
    ['the hash table of System V', [GNU2, '-Wl,--hash-style=sysv'], 'static'],
    ['gold and TLS descriptors', [GNU2, '-fuse-ld=gold'], 'static'],
    ['gold and the traditional dialect', [GNU, '-fuse-ld=gold'], 'dynamic'],
  ])('%s', async (name, options, mode) => {
    const id = name.replace(/\W+/g, '_');
    const program = linkedWith(`linked_${id}`, library(`linked_${id}`, options));
    expect(verified(await start(program))).toMatchObject({ mode });
  });

  test.each<[string, readonly string[], ThreadLocal['mode']]>([
    ['the program uses it', [], 'static'],
    ['the program uses it by TLS descriptors', [GNU2, '-fPIC', '-Wl,--no-relax'], 'static'],
  ])('and contains nothing else: %s', async (name, options, mode) => {
    const file = library('only_data', [], [VARIABLE]);
    const program = compile(`user_${name.replace(/\W+/g, '_')}`, [PROGRAM, ACCESS], [file, ...options]);
    expect(verified(await start(program))).toMatchObject({ mode });
  });

  test('and contains nothing else: another library uses it', async () => {
    const data = library('only_data', [], [VARIABLE]);
    const code = library('only_code', [GNU, data], [ACCESS]);
    expect(verified(await start(linkedWith('users', code, [data])))).toMatchObject({ mode: 'dynamic' });
  });

  test('and the program defines it too: that of the program serves both', async () => {
    const file = library('second', [GNU2]);
    const program = compile('first_and_second', [PROGRAM, VARIABLE], [EXPORTED, file]);
    expect(verified(await start(program))).toMatchObject({ mode: 'static' });
  });
});

describe('a library that is loaded while threads run defines the variable', () => {
  test.each<[string, readonly string[], ThreadLocal['mode']]>([
    ['TLS descriptors', [GNU2], 'static'],
    ['the traditional dialect', [GNU], 'dynamic'],
    ['TLS descriptors and 200 KB of thread-local storage', [GNU2, '-DTLS_BYTES=204800'], 'dynamic'],
    ['the traditional dialect and 200 KB', [GNU, '-DTLS_BYTES=204800'], 'dynamic'],
    ['TLS descriptors and 200 KB, bound within', [GNU2, '-DTLS_BYTES=204800', '-Wl,-Bsymbolic'], 'dynamic'],
    ['the traditional dialect and 200 KB, bound within', [GNU, '-DTLS_BYTES=204800', '-Wl,-Bsymbolic'], 'dynamic'],
    ['initial-exec', ['-ftls-model=initial-exec'], 'static'],
  ])('%s', async (name, options, mode) => {
    const file = library(`loaded_${name.replace(/\W+/g, '_')}`, options);
    expect(verified(await start(loader(), [file]))).toMatchObject({ mode });
  });

  test('and its file has been deleted since', async () => {
    const file = library('deleted', [GNU2]);
    const running = await start(loader(), [file]);
    rmSync(file);
    expect(verified(running)).toMatchObject({ mode: 'static' });
  });
});

describe('the variable is not found', () => {
  const none = () => compile('none', ['thread_context_none']);

  function reasonFor(pid: number) {
    return createThreadLocalResolver().resolve(pid);
  }

  test('in a program without it', async () => {
    expect(reasonFor((await start(none())).pid)).toEqual({ value: undefined, reason: 'not_exported' });
  });

  test('in a program that does not export it', async () => {
    const program = compile('hidden', [PROGRAM, VARIABLE, ACCESS]);
    expect(reasonFor((await start(program)).pid)).toMatchObject({ reason: 'not_exported' });
  });

  test('in a library that defines it, if nothing uses it', async () => {
    const running = await start(none(), [library('only_data', [], [VARIABLE])]);
    expect(reasonFor(running.pid)).toMatchObject({ reason: 'unsupported' });
  });

  test('with another C library, whose thread vectors may differ', async () => {
    const linker = join(import.meta.dirname, '../../../../build/test/otel/other_linker.so');
    copyFileSync('/lib64/ld-linux-x86-64.so.2', linker);
    const options = ['-DLOADS_LIBRARY', `-Wl,--dynamic-linker=${linker}`];
    const program = compile('other_libc', [PROGRAM], options);
    const running = await start(program, [library('other_libc', [GNU2, '-DTLS_BYTES=204800'])]);
    expect(reasonFor(running.pid)).toMatchObject({ reason: 'unsupported' });
  });

  test('in a program on a file system that only the program itself sees', async () => {
    const program = compile('hidden_mount', [PROGRAM, VARIABLE, ACCESS], [EXPORTED]);
    const script = 'mount -t tmpfs tmpfs /mnt && cp "$0" /mnt/program && exec /mnt/program';
    const running = await start('unshare', ['--mount', 'sh', '-c', script, program]);
    expect(reasonFor(running.pid)).toMatchObject({ reason: 'unreadable' });
  });

  test('in a kernel thread or an exited process', async () => {
    expect(reasonFor(2)).toMatchObject({ reason: 'not_exported' });
    const { pid } = await start(none());
    await stopAll();
    expect(reasonFor(pid)).toEqual({ value: undefined, reason: 'gone' });
  });
});

test('a file without the variable is read again after it was changed', async () => {
  const resolver = createThreadLocalResolver();
  const program = join(dirname(compile('without', ['thread_context_none'])), 'changed');
  copyFileSync(compile('without', ['thread_context_none']), program);
  const { pid } = await start(program);
  expect(resolver.resolve(pid)).toMatchObject({ reason: 'not_exported' });
  expect(resolver.resolve(pid)).toMatchObject({ reason: 'not_exported' });
  await stopAll();
  const { ino } = statSync(program);
  copyFileSync(compile('with', [PROGRAM, VARIABLE, ACCESS], [EXPORTED]), program);
  expect(statSync(program).ino).toBe(ino);
  expect(resolver.resolve((await start(program)).pid)).toMatchObject({ value: { mode: 'static' } });
});
