/*
 * Tests the parser of type information by coverage-guided fuzzing: libFuzzer with AddressSanitizer and
 * UndefinedBehaviorSanitizer looks for input that our parser fails on, or accepts though libbpf fails on it.
 */
import { spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { times } from '../../repeats.ts';
import { compileBpf, root } from '../compile.ts';
import { compiled, sourcesIn } from '../compiled.ts';
import { regionsOf } from './mutations.ts';

const OBJECTS = ['hooks', 'records', 'busy'];

/** Each run takes some 10 us. */
const RUNS = times(50_000);
/** The same inputs each time, or others where there are more. */
const SEED = RUNS === 50_000 ? 1 : 0;
const TIMEOUT_MS = 3_600_000;
const INPUT_BYTES_MAX = 65_536;

/** The two constants below are from linux/btf.h. */
const BTF_TYPE_BYTES = 12;
const BTF_KIND_TYPEDEF = 8;
/** Magic number, version, no flags, and the header's length; the header of .BTF.ext is longer. */
const BTF_HEADER = Buffer.from([0x9f, 0xeb, 1, 0, 24, 0, 0, 0]);

const build = join(root, 'build/test');

let fuzzer = '';
beforeAll(() => {
  fuzzer = compileFuzzer();
});

/** Runs the fuzzer and fails with its report, which contains the input in base64; the input is also in a file. */
function expectNothingFound(...words: string[]): string {
  const { status, stderr } = spawnSync(fuzzer, ['-timeout=5', `-artifact_prefix=${build}/`, ...words], {
    encoding: 'utf8',
    timeout: TIMEOUT_MS,
    maxBuffer: 1 << 28,
  });
  expect({ status, found: status === 0 ? '' : stderr.slice(-8000) }).toEqual({ status: 0, found: '' });
  return stderr;
}

test(
  `${RUNS} inputs`,
  () => {
    const seeds = join(build, 'type_information_seeds');
    writeSeeds(seeds);
    const options = [`-runs=${RUNS}`, `-seed=${SEED}`, `-max_len=${INPUT_BYTES_MAX}`, '-print_final_stats=1'];
    const said = expectNothingFound(...options, seeds);
    expect(Number(/stat::number_of_executed_units: (\d+)/.exec(said)![1])).toBeGreaterThanOrEqual(RUNS);
  },
  TIMEOUT_MS,
);

test('a hundred thousand types, each derived from the next', () => {
  const file = join(build, 'type_information_row');
  writeFileSync(file, rowOfTypedefs(100_000));
  expectNothingFound(file);
});

/** A chain of typedefs, the last one of void. */
function rowOfTypedefs(count: number): Buffer {
  const types = Buffer.alloc(count * BTF_TYPE_BYTES);
  for (let i = 0; i < count; i++) {
    types.writeUInt32LE(1, i * BTF_TYPE_BYTES);
    types.writeUInt32LE(BTF_KIND_TYPEDEF << 24, i * BTF_TYPE_BYTES + 4);
    types.writeUInt32LE(i + 1 < count ? i + 2 : 0, i * BTF_TYPE_BYTES + 8);
  }
  const names = Buffer.from('\0a\0');
  const sizes = Buffer.alloc(16);
  for (const [i, value] of [0, types.length, types.length, names.length].entries()) sizes.writeUInt32LE(value, i * 4);
  return Buffer.concat([BTF_HEADER, sizes, types, names]);
}

function compileFuzzer(): string {
  const own = join(import.meta.dirname, 'type_information_fuzz.cc');
  const words = [
    ...['-g', '-O1', '-std=c++20', '-Wall', '-Wextra', '-Werror'],
    ...['-fsanitize=fuzzer,address,undefined', '-fno-sanitize-recover=all'],
    ...[own, join(root, 'native/src/type_information.cc'), '-l:libbpf.a', '-lelf', '-lz'],
  ];
  return compiled('type_information_fuzz', 'clang++', words, [own, ...sourcesIn(join(root, 'native/src'))]);
}

/** Writes whole objects, and their type information alone, as the fuzzer's seeds. */
function writeSeeds(folder: string): void {
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  for (const name of OBJECTS) {
    const object = readFileSync(compileBpf(name));
    const sections = regionsOf(object).map(({ from, size }) => object.subarray(from, from + size));
    writeFileSync(join(folder, `${name}.o`), object);
    writeFileSync(join(folder, `${name}.btf`), sections.find((section) => section.indexOf(BTF_HEADER) === 0)!);
  }
}
