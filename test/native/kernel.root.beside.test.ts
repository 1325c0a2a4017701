/* Tests the queries about the running kernel that need no object. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { btfEnumerator, btfFieldExists, btfFuncProtoArgCount, btfTypeExists, features, possibleCpus } from 'libbpf-ts';
import { btfFuncProtoArgCounts, clockState, readClocks, tracepointsArePreempted } from 'libbpf-ts/kernel';
import { asNobodyWith } from '../unprivileged.ts';
import { root, thrownBy } from './compile.ts';

test('features() reports the features of this kernel', () => {
  const found = features();
  expect(found.libbpf).toMatch(/^v\d+\.\d+$/);
  expect(Object.values(found).filter((value) => typeof value !== 'boolean')).toEqual([found.libbpf]);
  expect(found).toMatchObject({ btf: true, ringbuf: true, rawTracepoint: true, tracing: true, taskStorage: true });
});

test('features() works without CAP_SYS_ADMIN, except for the types of modules', () => {
  const source = "import { features } from 'libbpf-ts'; console.log(JSON.stringify(features()));";
  const [file, ...args] = [...asNobodyWith('bpf', 'perfmon'), process.execPath, '--input-type=module', '-e', source];
  const found = JSON.parse(execFileSync(file, args, { cwd: root, encoding: 'utf8' }));
  expect(found).toEqual({ ...features(), moduleTypes: false });
  expect(features().moduleTypes).toBe(true);
});

test('the preemption of programs is reported, and always the same', () => {
  const told = tracepointsArePreempted();
  expect(typeof told).toBe('boolean');
  expect(tracepointsArePreempted()).toBe(told);
});

test('possibleCpus() agrees with the kernel', () => {
  const last = /(\d+)\s*$/.exec(readFileSync('/sys/devices/system/cpu/possible', 'utf8'))![1];
  expect(possibleCpus()).toBe(Number(last) + 1);
});

test('fields of kernel structs have the offsets that C gives', () => {
  expect(btfFieldExists('task_struct', 'start_boottime')).toBe(true);
  expect(btfFieldExists('task_struct', 'thread_info.flags')).toBe(true);
  expect(btfFieldExists('page', 'mapping')).toBe(true);
  expect(btfFieldExists('atomic_t', 'counter')).toBe(true);
  for (const path of ['no_such_field', 'thread_info.no_such_field', 'pid.too_deep', 'mm.pgd', '.', 'pid.']) {
    expect([path, btfFieldExists('task_struct', path)]).toEqual([path, false]);
  }
  expect(btfFieldExists('no_such_struct', 'pid')).toBe(false);
});

test('types are found by name', () => {
  expect(['task_struct', 'pid_t', 'vfs_read', 'no_such_type'].map(btfTypeExists)).toEqual([true, true, true, false]);
});

test('enumerators are found in named and anonymous enums', () => {
  expect(['PIDTYPE_TGID', 'MEMBLOCK_NONE', 'no_such_enumerator'].map(btfEnumerator)).toEqual([1, 0, undefined]);
  // Both enumerators belong to an anonymous enum in include/linux/blk_types.h.
  expect(btfEnumerator('BIO_PAGE_PINNED')).toBe(0);
  expect(btfEnumerator('BIO_CLONED')).toBe(1);
});

test('arguments of tracepoints and functions are counted', () => {
  expect(btfFuncProtoArgCount('btf_trace_sys_enter')).toBe(2);
  expect([1, 2]).toContain(btfFuncProtoArgCount('btf_trace_block_rq_issue'));
  expect(btfFuncProtoArgCount('vfs_read')).toBe(4);
  expect(btfFuncProtoArgCount('btf_trace_no_such')).toBeUndefined();
  expect(btfFuncProtoArgCount('pid_t')).toBeUndefined();
  expect(btfFuncProtoArgCounts(['vfs_read', 'pid_t', 'btf_trace_sys_exit'])).toEqual([4, undefined, 2]);
  expect(thrownBy(() => btfFuncProtoArgCounts([], 'no_such_module')).code).toBe('ENOENT');
  for (const names of [undefined, 'vfs_read', ['vfs_read', 7]] as never[]) {
    expect(thrownBy(() => btfFuncProtoArgCounts(names)).code).toBe('ERR_INVALID_ARG_TYPE');
  }
  expect(thrownBy(() => btfFuncProtoArgCount(7 as never)).code).toBe('ERR_INVALID_ARG_TYPE');
});

test('the state of the wall clock is that of adjtimex(2)', () => {
  const script =
    'import ctypes; t = (ctypes.c_long * 32)(); r = ctypes.CDLL(None).adjtimex(t); print(r != 5 and not t[5] & 64)';
  expect(clockState().synchronized).toBe(execFileSync('python3', ['-c', script], { encoding: 'utf8' }) === 'True\n');
  expect(clockState().estimatedErrorUs).toBeLessThanOrEqual(clockState().maxErrorUs);
});

test('readClocks() gives the wall and the boot clock at one moment, and the uncertainty', () => {
  const clocks = new BigInt64Array(4);
  const before = BigInt(Date.now()) * 1_000_000n;
  readClocks(clocks);
  const after = BigInt(Date.now() + 1) * 1_000_000n;
  const [wall, boot, uncertainty, monotonic] = clocks as unknown as [bigint, bigint, bigint, bigint];
  expect(wall >= before && wall <= after).toBe(true);
  expect(boot > 0n && uncertainty > 0n).toBe(true);
  expect(monotonic <= process.hrtime.bigint()).toBe(true);

  // The clocks run apart by a thousandth of the time between two readings at most.
  const again = new BigInt64Array(3);
  readClocks(again);
  const drift = again[0]! - again[1]! - (wall - boot);
  const most = uncertainty + again[2]! + (again[1]! - boot) / 1000n;
  expect(drift <= most && drift >= -most).toBe(true);
});

test('readClocks() is uncertain of less than a millisecond, where nothing takes the CPU meanwhile', () => {
  const clocks = new BigInt64Array(3);
  const uncertainties = Array.from({ length: 20 }, () => {
    readClocks(clocks);
    return clocks[2]!;
  });
  expect(uncertainties.some((ns) => ns < 1_000_000n)).toBe(true);
});

test('readClocks() requires a large enough array', () => {
  for (const wrong of [new BigInt64Array(2), new Float64Array(4), undefined]) {
    expect(thrownBy(() => readClocks(wrong as BigInt64Array)).code).toBe('ERR_INVALID_ARG_TYPE');
  }
});
