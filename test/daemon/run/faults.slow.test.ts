/** Tests short writes and recorded errors: which events of a plan they apply to, and that real programs get them. */
import { spawnSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { constants } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { openSource } from '../../../daemon/export/source.ts';
import { addFaults } from '../../../daemon/run/execution/replay_run.ts';
import { EVENT_FLAGS } from '../../../daemon/run/format/plan_file.ts';
import { createErrorCollector } from '../../../daemon/run/plan/recorded_errors.ts';
import { RuleError } from '../../../daemon/run/plan/rules.ts';
import { parseShortRule } from '../../../daemon/run/plan/short_rule.ts';
import { compileC } from '../../native/runner/run.ts';
import { hosted } from '../hosted.ts';
import { newFolder, type Row, recorded, START } from '../recorded.ts';
import { served } from '../served.ts';
import { bundleOf, MS, run, writesTo } from './incident.ts';
import { incidentOf, planOf, TRANSACTION } from './planned.ts';

const { ENOSPC, EIO } = constants.errno;
const ERESTARTSYS = 512n;

let file: string;
beforeEach(() => {
  file = join(newFolder(), 'out');
});

/** Two threads in turn, each with a file of its own: `a` at 0 and 2, `b` at 1 and 3. */
const TURNS: Row[] = ['/a', '/b', '/a', '/b'].map((path, at) => {
  return { at: START + BigInt(at) * MS, tid: path === '/a' ? 7 : 8, file: path, requested: 64n, fd: 5 };
});

function faulty(rows: readonly Row[], texts: readonly string[], replaysErrors = false, speed = 1) {
  const incident = incidentOf(rows);
  const plan = planOf(incident, { speed });
  const short = texts.map(parseShortRule);
  const { events } = addFaults(plan, incident, { short, errors: replaysErrors ? errorsOf(rows) : undefined });
  const places = Array.from({ length: plan.eventCount }, (_, at) => at);
  // Sorts into recorded order: in a plan the events of one thread are contiguous.
  const order = places.sort((one, other) => events.offset_ns[one]! - events.offset_ns[other]!);
  return order.map((at) => [(events.flags[at]! & EVENT_FLAGS.short_write) !== 0, events.error[at]] as const);
}

function errorsOf(rows: readonly Row[]) {
  const errors = createErrorCollector();
  const source = openSource(recorded(rows.map((row) => ({ transaction: TRANSACTION, ...row }))));
  for (const block of source.scan({ transactionId: TRANSACTION })) errors.addBlock(block);
  source.close();
  return errors;
}

describe('--short', () => {
  test.each([
    ['sys_write', [true, true, true, true]],
    ['sys_write:nth=2', [false, true, false, false]],
    ['sys_write:path=/b', [false, true, false, true]],
    ['sys_write:path=/*:nth=4', [false, false, false, true]],
    ['sys_write:path=/c', [false, false, false, false]],
  ])('%s', (text, expected) => {
    expect(faulty(TURNS, [text]).map(([isShort]) => isShort)).toEqual(expected);
  });

  test.each([
    ['', 'must begin with sys_write, block_io, or sys_sync, not nothing'],
    ['sys_sync', 'must begin with sys_write: nothing of a sys_sync can be short'],
    ['block_io', 'must begin with sys_write: nothing of a block_io can be short'],
    ['sys_write:EIO', 'must not name an error: a call that fails writes nothing'],
    ['sys_write:nth=0', 'nth=1 or more'],
    ['sys_write:extra=1ms', 'must not have extra'],
  ])('%j: %s', (text, message) => {
    expect(() => parseShortRule(text)).toThrow(message);
  });

  test('any text is a rule or is refused with an explanation', () => {
    const part = fc.constantFrom('sys_write', 'block_io', 'sys_sync', 'path=*', 'nth=2', 'EIO', '\\', '=', '');
    const text = fc.oneof(
      fc.string({ unit: 'grapheme' }),
      fc.array(part).map((parts) => parts.join(':')),
    );
    fc.assert(
      fc.property(text, (rule) => {
        try {
          parseShortRule(rule);
        } catch (error) {
          expect(error).toBeInstanceOf(RuleError);
          expect((error as Error).message).toMatch(/^must /);
        }
      }),
    );
  });
});

test('--fail is returned also to a program that has the file as its output', async () => {
  const bundle = bundleOf(writesTo(file, [0, 0], { fd: 5, comm: 'sh', requested: 2n, result: 2n }));
  const script = `{ echo 1; echo 2 || echo failed >&3; } 3>&1 >${file}`;
  const { stdout, stderr, result } = await run(
    bundle,
    ['--fail', `sys_write:ENOSPC:path=${file}:nth=2`],
    ['sh', '-c', script],
  );
  expect([stdout, readFileSync(file, 'utf8'), result.verdict]).toEqual(['failed\n', '1\n', 'replayed']);
  expect(stderr).not.toContain('never called');
});

describe('recorded errors', () => {
  const rows: Row[] = TURNS.map((row, at) => ({
    ...row,
    result: [64n, BigInt(-ENOSPC), -ERESTARTSYS, BigInt(-EIO)][at]!,
  }));

  test.each([1, 1000])('go to the events to which they belong, at speed %s', (speed) => {
    expect(faulty(rows, [], true, speed).map(([, errno]) => errno)).toEqual([0, ENOSPC, 0, EIO]);
    expect(faulty(rows, [], false, speed).map(([, errno]) => errno)).toEqual([0, 0, 0, 0]);
  });

  test('apply to syncs too', () => {
    const sync: Row = { at: START + 9n * MS, type: 'sys_sync', tid: 7, file: '/a', result: BigInt(-EIO) };
    expect(faulty([...TURNS, sync], [], true).map(([, errno]) => errno)).toEqual([0, 0, 0, 0, EIO]);
  });

  test('apply to calls, not to block requests', () => {
    const request: Row = { at: START + 9n * MS, type: 'block_io', tid: 7, result: BigInt(-EIO) };
    expect(errorsOf([...rows, request]).count).toBe(2);
  });
});

const dd = (count: number) => ['dd', 'if=/dev/urandom', `of=${file}`, 'bs=4096', `count=${count}`, 'conv=notrunc'];
const LENGTHS = [5, 20, 5];

describe('real programs', () => {
  test('strace shows a short write of dd after its wait, and dd writes the rest', async () => {
    const trace = join(newFolder(), 'trace');
    const command = ['strace', '-T', '-e', 'trace=write', '-o', trace, ...dd(3)];
    const bundle = bundleOf(writesTo(file, LENGTHS));
    const { code, stderr, result } = await run(bundle, ['--short', 'sys_write:nth=2'], command);
    expect([code, readFileSync(file).length]).toEqual([0, 3 * 4096]);
    const seen = [...readFileSync(trace, 'utf8').matchAll(/^write\(1, .*, (\d+)\) = (\d+) <([\d.]+)>$/gm)];
    expect(seen.map(([, asked, written]) => `${asked} ${written}`)).toEqual([
      '4096 4096',
      '4096 2048',
      '2048 2048',
      '4096 4096',
    ]);
    expect(Number(seen[1]![3])).toBeGreaterThan(0.019);
    expect(result.figures!.short_writes).toEqual({ short: 1, whole: 0 });
    expect(stderr).toContain('kreplay run: short writes: 1\n');
  });

  test('Python writes half of each call of the family, and the file has exactly that', async () => {
    const program = `
import os, sys
file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
print(os.write(file, b'abcdef'), os.writev(file, [b'gh', b'', b'ijklmn']))
print(os.pwrite(file, b'ABCD', 20), os.pwritev(file, [b'E', b'FGHIJ'], 30), os.pwritev(file, [b'KL', b'MN'], 40, os.RWF_SYNC))
print(os.write(file, b'z'), os.lseek(file, 0, os.SEEK_CUR), os.pread(file, 99, 0).replace(bytes(1), b'.').decode())`;
    const rows = writesTo(file, [1, 1, 1, 1, 1, 1], { fd: 5, comm: 'python3' }).map((row, at) => {
      return { ...row, requested: [6n, 8n, 4n, 6n, 4n, 1n][at]! };
    });
    const { stdout, result } = await run(bundleOf(rows), ['--short', 'sys_write'], ['python3', '-c', program, file]);
    expect(stdout).toBe('3 4\n2 3 2\n1 8 abcghijz............AB........EFG.......KL\n');
    // A write of a single byte cannot be short.
    expect(result.figures!.short_writes).toEqual({ short: 5, whole: 1 });
  });

  test('SQLite writes the rest of each short write, and its database is intact', async () => {
    const sql = ['create table t (a)', ...Array.from({ length: 9 }, (_, at) => `insert into t values (${at})`)];
    const rows = writesTo(file, Array(60).fill(0.1), { comm: 'sqlite3', fd: 5, syscall: 'pwrite64' });
    const command = ['sqlite3', file, `${sql.join(';')}; pragma integrity_check; select sum(a) from t`];
    const { code, stdout, result } = await run(bundleOf(rows), ['--short', 'sys_write'], command);
    expect([code, stdout]).toEqual([0, 'ok\n36\n']);
    expect(result.figures!.short_writes.short).toBeGreaterThan(9);
  });

  test('a file size limit applies to the command itself: there it writes completely', async () => {
    const command = ['bash', '-c', `ulimit -f 1000; exec ${dd(3).join(' ')}`];
    const { code, stderr, result } = await run(bundleOf(writesTo(file, LENGTHS)), ['--short', 'sys_write'], command);
    expect([code, result.figures!.short_writes]).toEqual([0, { short: 0, whole: 3 }]);
    expect(stderr).toContain('short writes: 0; 3 more could not be made short');
  });

  test('if short writes cannot be made the command does not run', async () => {
    const old = compileC('old_kernel');
    const bundle = bundleOf(writesTo(file, LENGTHS));
    const options = ['run', '--bundle', bundle, '--transaction', TRANSACTION, '--short', 'sys_write'];
    const words = [process.execPath, join(import.meta.dirname, '../../../kreplay.ts'), ...options, '--', ...dd(3)];
    const { status, stderr } = spawnSync(old, words, { encoding: 'utf8' });
    expect(existsSync(file)).toBe(false);
    expect([status, stderr]).toEqual([
      69,
      'kreplay run: unsupported: --short needs pidfd_getfd(2), which is not permitted here\n',
    ]);
  });

  test('errors of the incident are returned on request, and reported otherwise', async () => {
    const rows = writesTo(file, LENGTHS).map((row, at) => ({ ...row, result: at === 1 ? BigInt(-ENOSPC) : 4096n }));
    const bundle = bundleOf(rows);
    const made = await run(bundle, [], dd(3));
    expect([made.code, readFileSync(file).length]).toEqual([0, 3 * 4096]);
    expect(made.stderr).toContain('1 calls failed in the incident: --replay-errors returns their errors');
    const failed = await run(bundle, ['--replay-errors'], dd(3));
    expect([failed.code, failed.stderr]).toEqual([1, expect.stringContaining('No space left on device')]);
    expect(failed.result.figures!.how).toMatchObject({ exact: 1, error_injected: 1 });
    const app = await served(join(bundle, '..'));
    const from = ['--url', app.url, '--transaction', TRANSACTION];
    const asked = await hosted('run', ...from, '--replay-errors', '--', ...dd(3));
    expect([asked.code, asked.stderr]).toEqual([1, expect.stringContaining('No space left on device')]);
  });
});

describe('an error applies to no other kind of call', () => {
  const CALLS = { sync: 162, fsync: 74, fdatasync: 75, write: 1, writev: 20 };
  const EBADF = constants.errno.EBADF;

  /** The result of each call: the kernel's error number, or 0. */
  async function returned(rows: readonly Row[], options: readonly string[], words: string): Promise<string> {
    const program = `
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
open_file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
piece = (ctypes.c_void_p * 2)(ctypes.cast(ctypes.c_char_p(b'abcd'), ctypes.c_void_p), 4)
for word in sys.argv[2].split():
    name, fd = word.split(':')
    text = {'write': b'abcd', 'writev': piece}.get(name)
    fd = open_file if fd == 'file' else int(fd)
    done = libc.syscall(${JSON.stringify(CALLS)}[name], fd, text, 4 if name == 'write' else 1)
    print(ctypes.get_errno() if done < 0 else done if name.startswith('write') else 0, end=' ')`;
    const command = ['python3', '-c', program, file, words];
    const { code, stdout } = await run(bundleOf(rows), options, command);
    expect(code).toBe(0);
    return stdout.trim();
  }

  const syncs = (calls: readonly (readonly ['fsync' | 'fdatasync' | 'sync', string | undefined, number])[]): Row[] =>
    calls.map(([syscall, path, errno], at) => ({
      ...{ type: 'sys_sync', at: START + BigInt(at) * MS, tid: 7, comm: 'python3', syscall },
      ...{ result: BigInt(-errno), fd: syscall === 'sync' ? -1 : 5 },
      ...(path !== undefined && { file: path }),
    }));

  test('sync(2) after a sync of a descriptor that was not open', async () => {
    const rows = syncs([
      ['fsync', undefined, EBADF],
      ['sync', undefined, 0],
      ['sync', undefined, 0],
      ['sync', undefined, 0],
    ]);
    expect(await returned(rows, ['--replay-errors'], 'fsync:888 sync:0 sync:0 sync:0')).toBe(`${EBADF} 0 0 0`);
    // A rule for all syncs does not apply to one that has no error to return.
    expect(await returned(rows, ['--fail', 'sys_sync:EIO'], 'fsync:888 sync:0 sync:0 sync:0')).toBe(`${EBADF} 0 0 0`);
  });

  test('fdatasync where fsync failed, and the other way round', async () => {
    const rows = syncs([
      ['fsync', file, EIO],
      ['fdatasync', file, ENOSPC],
    ]);
    expect(await returned(rows, ['--replay-errors'], 'fsync:file fdatasync:file')).toBe(`${EIO} ${ENOSPC}`);
    expect(await returned(rows, ['--replay-errors'], 'fdatasync:file fsync:file')).toBe('0 0');
    expect(await returned(rows, ['--fail', 'sys_sync:EIO'], 'fdatasync:file fsync:file')).toBe(`${EIO} ${EIO}`);
    expect(await returned(rows, ['--fail', 'sys_sync:syscall=fsync:EIO'], 'fdatasync:file fdatasync:file')).toBe('0 0');
  });

  test('a rule for one call of a family makes no other one fail or write less', async () => {
    const rows = writesTo(file, [1, 1], { comm: 'python3', fd: 5, requested: 4n, syscall: 'writev' });
    expect(await returned(rows, ['--fail', 'sys_write:ENOSPC'], 'write:file writev:file')).toBe(`${ENOSPC} ${ENOSPC}`);
    const ofOne = 'sys_write:syscall=writev';
    expect(await returned(rows, ['--fail', `${ofOne}:ENOSPC`], 'write:file writev:file')).toBe(`4 ${ENOSPC}`);
    expect(await returned(rows, ['--short', ofOne], 'write:file writev:file')).toBe('4 2');
  });
});
