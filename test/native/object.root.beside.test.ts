/* Tests a BpfObject against the kernel: variables, attach, test runs, iterators, statistics, refusals. */
import { execFileSync, spawnSync } from 'node:child_process';
import { closeSync, existsSync, ftruncateSync, openSync, readFileSync, rmSync } from 'node:fs';
import { BpfObject, type VariableValue } from 'libbpf-ts';
import { asNobodyWith } from '../unprivileged.ts';
import { compileBpf, root, thrownBy, u32, u64 } from './compile.ts';

let file: string;
let object: BpfObject;

beforeAll(() => {
  file = compileBpf('hooks');
});

beforeEach(() => {
  object = BpfObject.open(file);
});

afterEach(() => object.close());

/** Makes exactly `times` ftruncate(2) calls. */
function truncate(times: number): void {
  const fd = openSync(`${root}/build/test/truncated`, 'w');
  for (let i = 0; i < times; i++) ftruncateSync(fd, i);
  closeSync(fd);
}

/** Sum over all CPUs of one counter of the per-CPU map `counts`. */
function counted(index: number): number {
  const values = object.map('counts').get(u32(index))!;
  const view = new DataView(values.buffer);
  let sum = 0;
  for (let at = 0; at < values.length; at += 8) sum += view.getUint32(at, true);
  return sum;
}

function loadForThisProcess(): void {
  object.setReadOnly('target_pid', process.pid);
  object.load();
}

test('programs, maps and variables are listed before load', () => {
  expect(object.programs.map(({ name, section, autoload, attached }) => [name, section, autoload, attached])).toEqual([
    ['on_sys_enter', 'tp_btf/sys_enter', true, false],
    ['on_ftruncate', 'raw_tp/sys_enter', true, false],
    ['on_classic', 'tp/syscalls/sys_enter_ftruncate', false, false],
    ['unattachable', 'raw_tp', true, false],
    ['read_variables', 'syscall', true, false],
    ['tasks', 'iter/task', true, false],
  ]);
  expect(object.maps.find((map) => map.name === 'table')).toEqual({
    name: 'table',
    type: 1,
    keySize: 4,
    valueSize: 8,
    maxEntries: 64,
  });
  expect(object.variables).toEqual([
    { name: 'target_pid', size: 4, kind: 'unsigned' },
    { name: 'wide', size: 8, kind: 'unsigned' },
    { name: 'narrow', size: 2, kind: 'signed' },
    { name: 'flag', size: 1, kind: 'boolean' },
    { name: 'label', size: 8, kind: 'bytes' },
  ]);
});

test('an object opens from bytes as it does from a file', () => {
  const fromBytes = BpfObject.open(readFileSync(file), { name: 'bytes' });
  expect(fromBytes.programs).toEqual(object.programs);
  expect(fromBytes.maps.some((map) => map.name === 'bytes.rodata')).toBe(true);
  fromBytes.load();
  expect(fromBytes.testRun('read_variables', { ctxIn: new Uint8Array(32) }).returnValue).toBe(7);
  fromBytes.close();
});

test('the programs read what setReadOnly set', () => {
  object.setReadOnly('wide', 2n ** 64n - 1n);
  object.setReadOnly('narrow', -32768);
  object.setReadOnly('flag', true);
  object.setReadOnly('target_pid', 4294967295);
  object.setReadOnly('label', Buffer.from('labelled'));
  object.load();
  const answer = new Uint8Array(32);
  object.testRun('read_variables', { ctxIn: answer });
  const view = new DataView(answer.buffer);
  expect(view.getBigUint64(0, true)).toBe(2n ** 64n - 1n);
  expect(view.getBigInt64(8, true)).toBe(-32768n);
  expect(view.getUint32(16, true)).toBe(4294967295);
  expect(view.getUint32(20, true)).toBe(1);
  expect(Buffer.from(answer.subarray(24)).toString()).toBe('labelled');
});

test.each<[string, VariableValue, string]>([
  ['nothing', 1, 'ERR_NOT_FOUND'],
  ['target_pid', -1, 'ERR_OUT_OF_RANGE'],
  ['target_pid', 4294967296, 'ERR_OUT_OF_RANGE'],
  ['target_pid', new Uint8Array(3), 'ERR_OUT_OF_RANGE'],
  ['target_pid', 1.5, 'ERR_INVALID_ARG_TYPE'],
  ['target_pid', Number.NaN, 'ERR_INVALID_ARG_TYPE'],
  ['target_pid', '1' as unknown as number, 'ERR_INVALID_ARG_TYPE'],
  ['target_pid', null as unknown as number, 'ERR_INVALID_ARG_TYPE'],
  ['wide', 2n ** 64n, 'ERR_OUT_OF_RANGE'],
  ['wide', 2 ** 53, 'ERR_INVALID_ARG_TYPE'],
  ['narrow', 32768, 'ERR_OUT_OF_RANGE'],
  ['narrow', -32769, 'ERR_OUT_OF_RANGE'],
  ['flag', 2, 'ERR_OUT_OF_RANGE'],
  ['label', 1, 'ERR_INVALID_ARG_TYPE'],
  ['label', new Uint8Array(9), 'ERR_OUT_OF_RANGE'],
])('setReadOnly(%s, %p) throws %s and changes nothing', (variable, value, code) => {
  expect(thrownBy(() => object.setReadOnly(variable, value)).code).toBe(code);
  object.load();
  const answer = new Uint8Array(32);
  object.testRun('read_variables', { ctxIn: answer });
  expect(answer.subarray(0, 24)).toEqual(u64(1n, 2n, 0n));
});

test('attach() attaches everything that it can and counts every call; detach() stops it', () => {
  loadForThisProcess();
  expect(object.attach()).toEqual(['on_sys_enter', 'on_ftruncate']);
  expect(object.attach()).toEqual([]);
  expect(object.programs.filter((program) => program.attached).map((program) => program.name)).toEqual([
    'on_sys_enter',
    'on_ftruncate',
  ]);
  truncate(97);
  expect([counted(0), counted(1)]).toEqual([97, 97]);
  object.detach('on_sys_enter');
  truncate(13);
  expect([counted(0), counted(1)]).toEqual([97, 110]);
  object.detach();
  truncate(13);
  expect([counted(0), counted(1)]).toEqual([97, 110]);
  expect(object.attach('on_sys_enter')).toEqual(['on_sys_enter']);
  expect(object.attach('on_sys_enter')).toEqual([]);
  truncate(7);
  expect([counted(0), counted(1)]).toEqual([104, 110]);
});

const TRACEFS = '/sys/kernel/tracing';
const CLASSIC = `${TRACEFS}/events/syscalls/sys_enter_ftruncate/id`;
const mountsTracefs = !existsSync(CLASSIC);
if (mountsTracefs) spawnSync('mount', ['-t', 'tracefs', 'tracefs', TRACEFS]);
afterAll(() => {
  if (mountsTracefs) spawnSync('umount', [TRACEFS]);
});
const classicTest = existsSync(CLASSIC) ? test : test.skip;

classicTest(`a classic tracepoint counts every call (needs ${CLASSIC})`, () => {
  object.setAutoload('on_classic', true);
  loadForThisProcess();
  expect(object.attach('on_classic')).toEqual(['on_classic']);
  truncate(97);
  expect(counted(1)).toBe(97);
});

test('a program without an attach point is skipped by attach() and refused by name', () => {
  object.load();
  expect(thrownBy(() => object.attach('unattachable'))).toMatchObject({
    name: 'BpfError',
    code: 'EOPNOTSUPP',
    syscall: 'bpf_program__attach',
    program: 'unattachable',
  });
});

test('a program with autoload off is not loaded, not attached, and reports so', () => {
  object.setAutoload('on_ftruncate', false);
  expect(object.programs.find((program) => program.name === 'on_ftruncate')?.autoload).toBe(false);
  loadForThisProcess();
  expect(object.attach()).toEqual(['on_sys_enter']);
  expect(thrownBy(() => object.attach('on_ftruncate')).code).toBe('ERR_NOT_LOADED');
  expect(thrownBy(() => object.testRun('on_ftruncate')).code).toBe('ERR_NOT_LOADED');
});

test('a map with autocreate off is not created, and reports so', () => {
  object.setAutocreate('events', false);
  object.load();
  expect(thrownBy(() => object.map('events')).code).toBe('ERR_NOT_LOADED');
  expect(thrownBy(() => object.ring('events')).code).toBe('ERR_NOT_LOADED');
});

test('testRun passes a context to a program and returns its return value', () => {
  object.load();
  expect(object.testRun('unattachable', { ctxIn: u64(40n, 2n) }).returnValue).toBe(42);
  expect(thrownBy(() => object.testRun('unattachable', { repeat: 3 }))).toMatchObject({
    code: 'EINVAL',
    syscall: 'bpf_prog_test_run_opts',
    program: 'unattachable',
  });
});

test('iterate() gives everything that the iterator wrote', () => {
  object.load();
  const bytes = object.iterate('tasks');
  const ids = new Uint32Array(bytes.buffer);
  const tgids = ids.filter((_, at) => at % 2 === 0);
  expect(bytes.length % 8).toBe(0);
  expect(tgids.filter((tgid) => tgid === process.pid).length).toBeGreaterThan(1);
  expect(thrownBy(() => object.iterate('on_ftruncate')).code).toBe('ERR_WRONG_TYPE');
});

test('programStats() counts runs while statistics are on', () => {
  loadForThisProcess();
  const runs = () => object.programStats().find((stats) => stats.name === 'on_ftruncate')!;
  object.attach('on_ftruncate');
  object.setRunStats(true);
  object.setRunStats(true);
  truncate(31);
  expect(runs().runCount).toBeGreaterThanOrEqual(31n);
  expect(runs().runTimeNs).toBeGreaterThan(0n);
  expect(runs().recursionMisses).toBe(0n);
  object.setRunStats(false);
});

test('an error of the verifier includes the program and its log', () => {
  const rejected = BpfObject.open(compileBpf('rejected'));
  const error = thrownBy(() => rejected.load());
  expect(error).toMatchObject({
    name: 'BpfError',
    code: 'EACCES',
    errno: 13,
    syscall: 'bpf_object__load',
    program: 'unchecked',
  });
  expect(error.verifierLog).toMatch(/R0 invalid mem access 'map_value_or_null'/);
  expect(error.message).toContain("program 'unchecked'");
  expect(thrownBy(() => rejected.load()).code).toBe('ERR_ALREADY_LOADED');
  expect(thrownBy(() => rejected.attach()).code).toBe('ERR_NOT_LOADED');
  rejected.close();
});

test('a missing feature is looked for even without CAP_SYS_ADMIN, which modules would require', () => {
  const source = `
    import { BpfObject } from 'libbpf-ts';
    const object = BpfObject.open(${JSON.stringify(compileBpf('weak'))});
    object.load();
    console.log(object.attach().join());`;
  const [command, ...front] = asNobodyWith('bpf', 'perfmon');
  const args = [...front, process.execPath, '--input-type=module', '-e', source];
  const { stdout, stderr } = spawnSync(command, args, { cwd: root, encoding: 'utf8' });
  expect([stdout, stderr]).toEqual(['on_sys_enter\n', '']);
});

test('without the refused program the rest loads, and missing hooks name their program', () => {
  const rejected = compileBpf('rejected');
  using some = BpfObject.open(rejected);
  some.setAutoload('unchecked', false);
  some.setAutoload('nowhere', true);
  some.load();
  expect(thrownBy(() => some.attach())).toMatchObject({ code: 'ENOENT', program: 'nowhere' });
  expect(some.programs.filter((program) => program.attached)).toEqual([]);
  expect(some.attach('fine')).toEqual(['fine']);

  using unknown = BpfObject.open(rejected);
  unknown.setAutoload('unchecked', false);
  unknown.setAutoload('unknown', true);
  const error = thrownBy(() => unknown.load());
  expect(error).toMatchObject({ code: 'ESRCH', program: 'unknown' });
  expect(error.log).toContain('no_such_tracepoint');
  expect(error).not.toHaveProperty('verifierLog');
});

test('what is not a BPF object is refused with the reason', () => {
  expect(thrownBy(() => BpfObject.open('/no/such/file'))).toMatchObject({ name: 'BpfError', code: 'ENOENT', errno: 2 });
  expect(thrownBy(() => BpfObject.open(import.meta.filename)).code).toBe('ERR_BPF_FORMAT');
  expect(thrownBy(() => BpfObject.open(process.execPath)).code).toBe('ERR_BPF_FORMAT');
  expect(thrownBy(() => BpfObject.open(new Uint8Array(0))).code).toBe('EINVAL');
  expect(thrownBy(() => BpfObject.open(new Uint8Array(4096))).code).toMatch(/^ERR_BPF_FORMAT|ERR_LIBELF$/);
  expect(thrownBy(() => BpfObject.open(undefined as unknown as string)).code).toBe('ERR_INVALID_ARG_TYPE');
});

test('a file of an unreasonable size is refused immediately', () => {
  const [pipe, large] = [`${root}/build/test/pipe-${process.pid}`, `${root}/build/test/large-${process.pid}`];
  execFileSync('mkfifo', [pipe]);
  execFileSync('truncate', ['-s', '1G', large]);
  try {
    const codes = ['/dev/zero', pipe, root, large].map((path) => thrownBy(() => BpfObject.open(path)).code);
    expect(codes).toEqual(['EINVAL', 'EINVAL', 'EISDIR', 'EFBIG']);
  } finally {
    for (const path of [pipe, large]) rmSync(path);
  }
});

test('an object is named after its file', () => {
  expect(object.maps.some(({ name }) => name === 'hooks.rodata')).toBe(true);
});

/** Runs a module in another process of this Node, with `command` in front. */
function runBy(command: readonly string[], source: string): string {
  const [file, ...args] = [...command, process.execPath, '--input-type=module', '-e', source];
  const { stdout, stderr } = spawnSync(file!, args, { cwd: root, encoding: 'utf8' });
  return stdout + stderr;
}

const TELL_CODE = (work: string) => `
  import { BpfObject } from 'libbpf-ts';
  const object = BpfObject.open(${JSON.stringify(file)});
  object.load();
  try { console.log(${work}); } catch ({ code, program, syscall }) { console.log(code, program ?? '', syscall); }`;

test('an operation that the kernel does not support is not mistaken for a section without an attach point', () => {
  // In the process that this starts, bpf(BPF_RAW_TRACEPOINT_OPEN) and bpf(BPF_LINK_CREATE) return EOPNOTSUPP.
  const refusing = `
import ctypes, os, struct, sys
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06
steps = [(LOAD, 0, 0, 0), (EQUAL, 0, 4, 321), (LOAD, 0, 0, 16), (EQUAL, 1, 0, 17), (EQUAL, 0, 1, 28),
         (RETURN, 0, 0, 0x50000 + 95), (RETURN, 0, 0, 0x7fff0000)]
filter = ctypes.create_string_buffer(b''.join(struct.pack('HBBI', *step) for step in steps))
libc = ctypes.CDLL(None)
assert not libc.prctl(38, 1, 0, 0, 0)
assert not libc.prctl(22, 2, struct.pack('HxxxxxxQ', len(steps), ctypes.addressof(filter)), 0, 0)
os.execv(sys.argv[1], sys.argv[1:])`;
  const told = runBy(['/usr/bin/python3', '-c', refusing], TELL_CODE('object.attach()'));
  expect(told).toBe('EOPNOTSUPP on_sys_enter bpf_program__attach\n');
});

test('if the number of CPUs is unknown, a per-CPU map has no values', () => {
  const hidden = 'mount -t tmpfs -o size=4k tmpfs /sys/devices/system/cpu; exec "$@"';
  const told = runBy(['unshare', '--mount', 'sh', '-ec', hidden, 'sh'], TELL_CODE("object.map('counts').valueBytes"));
  expect(told).toBe('ENOENT  libbpf_num_possible_cpus\n');
});

test('a file truncated at any byte is refused', () => {
  /* A file with wrong bytes may be accepted: libbpf trusts the type information inside (see README.md, Limits). */
  const bytes = readFileSync(file);
  for (let size = 0; size < bytes.length; size += 7) {
    expect(thrownBy(() => BpfObject.open(bytes.subarray(0, size)).close()).code).toBeDefined();
  }
});
