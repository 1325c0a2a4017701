/**
 * Tests which system calls the filter reports to the helper, by number: not every machine can make calls of other ABIs.
 */
import { execFileSync } from 'node:child_process';
import { compileC } from './run.ts';

/** Numbers from the kernel's tables in arch/x86/entry/syscalls. */
const NATIVE = {
  ...{ write: 1, pwrite64: 18, writev: 20, pwritev: 296, pwritev2: 328 },
  ...{ fsync: 74, fdatasync: 75, sync_file_range: 277, syncfs: 306, msync: 26, sync: 162 },
};
const COMPAT = {
  ...{ write: 4, pwrite64: 181, writev: 146, pwritev: 334, pwritev2: 379 },
  ...{ fsync: 118, fdatasync: 148, sync_file_range: 314, syncfs: 344, msync: 144, sync: 36 },
};
const X32 = { ...NATIVE, writev: 516, pwritev: 535, pwritev2: 547 };
const X32_BIT = 0x40000000;

function seen(calls: readonly (readonly [arch: string, number: number, first: number])[]): string[] {
  const input = calls.map((call) => `${call.join(' ')}\n`).join('');
  const driver = compileC('filter_driver', ['seccomp/filter.c', 'seccomp/syscalls.c', 'seccomp/notify.c']);
  return execFileSync(driver, { input, encoding: 'utf8' }).trim().split('\n');
}

const each = (numbers: Readonly<Record<string, number>>) => Object.values(numbers);
const range = (end: number) => Array.from({ length: end }, (_, number) => number);

test('native calls of the family; on the standard descriptors, only those that are asked for', () => {
  expect(new Set(seen(each(NATIVE).map((number) => ['native', number, 3])))).toEqual(new Set(['seen']));
  const said = seen(each(NATIVE).map((number) => ['native', number, 2]));
  expect(said).toEqual([...Array(5).fill('let be'), ...Array(6).fill('seen')]);
});

test('for 32-bit programs all calls of the family are counted, and nothing else', () => {
  const said = seen(range(500).map((number) => ['compat', number, 3]));
  const counted = range(500).filter((number) => said[number] === 'seen compat');
  expect(counted).toEqual(each(COMPAT).sort((one, other) => one - other));
  expect(new Set(said)).toEqual(new Set(['seen compat', 'let be']));
});

test('for programs with the x32 ABI too', () => {
  const said = seen(range(600).map((number) => ['native', X32_BIT | number, 3]));
  const counted = range(600).filter((number) => said[number] === 'seen compat');
  expect(counted).toEqual(each(X32).sort((one, other) => one - other));
  expect(new Set(said)).toEqual(new Set(['seen compat', 'let be']));
});
