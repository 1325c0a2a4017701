// Coverage-guided: libFuzzer with AddressSanitizer and UndefinedBehaviorSanitizer looks for type information that our parser fails on, or lets pass though libbpf fails on it.
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { compileBpf, root } from '../compile.ts';
import { regionsOf } from './mutations.ts';

const OBJECTS = ['hooks', 'records', 'busy'];

/** The suite tries the same ones each time; `make fuzz` others, and more. */
const ASKED = process.env.KREPLAY_FUZZ_RUNS;
/** Each takes some 10 us. */
const RUNS = ASKED === undefined ? 200_000 : Number(ASKED) * 50;
const SEED = ASKED === undefined ? 1 : 0;
const TIMEOUT_MS = 3_600_000;
const INPUT_BYTES_MAX = 65_536;

/** Its magic number, version, no flags, and its length: that of .BTF.ext is longer. */
const BTF_HEADER = Buffer.from([0x9f, 0xeb, 1, 0, 24, 0, 0, 0]);

const build = join(root, 'build/test');

test(
  `${RUNS} inputs`,
  () => {
    const fuzzer = compileFuzzer();
    const seeds = join(build, 'type_information_seeds');
    writeSeeds(seeds);
    const options = [
      `-runs=${RUNS}`,
      `-seed=${SEED}`,
      `-max_len=${INPUT_BYTES_MAX}`,
      '-timeout=5',
      '-print_final_stats=1',
    ];
    const { status, stderr } = spawnSync(fuzzer, [...options, `-artifact_prefix=${build}/`, seeds], {
      encoding: 'utf8',
      timeout: TIMEOUT_MS,
      maxBuffer: 1 << 28,
    });
    // What it found, as it says it: the input is in there in base64, and in a file.
    expect({ status, found: status === 0 ? '' : stderr.slice(-8000) }).toEqual({ status: 0, found: '' });
    expect(Number(/stat::number_of_executed_units: (\d+)/.exec(stderr)![1])).toBeGreaterThanOrEqual(RUNS);
  },
  TIMEOUT_MS,
);

function compileFuzzer(): string {
  const fuzzer = join(build, 'type_information_fuzz');
  mkdirSync(build, { recursive: true });
  execFileSync('clang++', [
    ...['-g', '-O1', '-std=c++20', '-Wall', '-Wextra', '-Werror'],
    ...['-fsanitize=fuzzer,address,undefined', '-fno-sanitize-recover=all'],
    join(import.meta.dirname, 'type_information_fuzz.cc'),
    join(root, 'native/src/type_information.cc'),
    ...['-l:libbpf.a', '-lelf', '-lz', '-o', fuzzer],
  ]);
  return fuzzer;
}

/** Objects, and their type information by itself. */
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
