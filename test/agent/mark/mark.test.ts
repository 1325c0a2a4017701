/** Tests `kreplay/mark`: what a transaction returns, what it refuses, and that it never disturbs the program. */
import { execFileSync, spawnSync } from 'node:child_process';
import { closeSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseMarker } from '../../../agent/attribution/marker.ts';
import { transaction } from '../../../agent/mark/mark.ts';
import { createMarkerOutput } from '../../../agent/mark/marker_output.ts';
import { carryOut, createTransactions } from '../../../agent/mark/transactions.ts';

const MARK = join(import.meta.dirname, '../../../agent/mark/mark.ts');
const folder = mkdtempSync(join(tmpdir(), 'kreplay-mark-'));

afterAll(() => rmSync(folder, { recursive: true }));

describe('the result of a transaction', () => {
  test('is what the function returns', async () => {
    const given = { a: 1 };
    expect(transaction('a', () => given)).toBe(given);
    expect(transaction('a', () => null)).toBeNull();
    expect(transaction('a', () => undefined)).toBeUndefined();
    expect(await transaction('a', async () => given)).toBe(given);
    expect(await transaction('a', () => sleep(1, given))).toBe(given);
  });

  test('is the exception that the function throws', async () => {
    const error = new Error('expected');
    const fail = () => {
      throw error;
    };
    expect(() => transaction('a', fail)).toThrow(error);
    await expect(transaction('a', async () => fail())).rejects.toBe(error);
    await expect(transaction('a', () => transaction('b', async () => fail()))).rejects.toBe(error);
  });

  test('has the types of the function', async () => {
    const number: number = transaction('a', () => 1);
    const promise: Promise<number> = transaction('a', async () => 1);
    const nothing: Promise<void> = transaction('a', async () => {}, { traceId: undefined });
    expect([number, await promise, await nothing]).toEqual([1, 1, undefined]);
  });

  test('a lazy thenable does its work inside the transaction', async () => {
    const lines: string[] = [];
    const transactions = createTransactions((line) => lines.push(line) > 0);
    const query = {
      // biome-ignore lint/suspicious/noThenProperty: as the query builders have it
      then: (resolve: (text: string) => void) => {
        const asked = lines.at(-1)!;
        setTimeout(() => resolve(asked + lines.at(-1)!), 1);
      },
    };
    const text = await carryOut(transactions.open('KREPLAY1 txn=a\n'), () => query);
    expect(text).toBe('KREPLAY1 txn=a\nKREPLAY1 txn=a\n');
    expect(lines.at(-1)).toBe('KREPLAY1 end\n');
  });

  test('an unhandled rejection ends the program, and a handled one does not', () => {
    const run = (script: string) =>
      spawnSync(
        process.execPath,
        ['--input-type=module', '-e', `import { transaction } from ${JSON.stringify(MARK)}; ${script}`],
        { encoding: 'utf8' },
      );
    const failing = `transaction('a', async () => { await null; throw new Error('expected'); })`;
    const unhandled = run(`${failing}; setTimeout(() => console.log('not reached'), 100)`);
    expect(unhandled).toMatchObject({ status: 1, stdout: '' });
    expect(unhandled.stderr).toContain('Error: expected');
    expect(run(`await ${failing}.catch(({ message }) => console.log(message))`)).toMatchObject({
      status: 0,
      stdout: 'expected\n',
      stderr: '',
    });
  });
});

describe('ids', () => {
  test.each(['a', 'ä €', '\n', '\0', '%', 'a b', '\ud800', 'a'.repeat(1009), ' '.repeat(336)])('%j is valid', (id) => {
    expect(transaction(id, () => 7)).toBe(7);
  });

  test.each(['', 'a'.repeat(1010), ' '.repeat(337), 'ä'.repeat(505), undefined, 7])('%j is invalid', (id) => {
    const run = () => transaction(id as string, () => expect(id).toBe('never run'));
    expect(run).toThrow(RangeError);
  });

  test('a trace and a service that cannot be accepted are left out', () => {
    for (const traceId of ['', 'nonsense', '0'.repeat(32), 'F'.repeat(32), 'a b']) {
      expect(transaction('a', () => 7, { traceId, service: '' })).toBe(7);
    }
    expect(() => transaction('a', () => 7, { service: 's'.repeat(1010) })).toThrow(RangeError);
  });
});

describe('the marker file', () => {
  const path = join(folder, 'markers');
  beforeEach(() => writeFileSync(path, ''));

  /** Descriptor of this process, so that a test can close it as other code might. */
  const fdOf = (file: string) =>
    readdirSync('/proc/self/fd').find((fd) => {
      try {
        return readlinkSync(`/proc/self/fd/${fd}`) === file;
      } catch {
        return false;
      }
    });

  test('is opened with the first marker, and kept open', () => {
    const output = createMarkerOutput(path);
    expect(fdOf(path)).toBeUndefined();
    expect([output('a\n'), output('b\n')]).toEqual([true, true]);
    expect(readFileSync(path, 'utf8')).toBe('a\nb\n');
    const fd = fdOf(path);
    expect(output('c\n')).toBe(true);
    expect(fdOf(path)).toBe(fd);
    closeSync(Number(fd));
  });

  test('is reopened after it was closed by other code', () => {
    const output = createMarkerOutput(path);
    output('a\n');
    closeSync(Number(fdOf(path)));
    expect(output('b\n')).toBe(true);
    closeSync(Number(fdOf(path)));
  });

  test('is not created if it does not exist, and nothing is thrown', () => {
    const output = createMarkerOutput(join(folder, 'missing'));
    expect([output('a\n'), output('b\n')]).toEqual([false, false]);
    expect(readdirSync(folder)).not.toContain('missing');
    // The path is not tried again at every change either.
    writeFileSync(join(folder, 'missing'), '');
    expect(output('c\n')).toBe(false);
  });

  test('may be unwritable: the process runs as it would without it', () => {
    const script = `
      import { transaction } from ${JSON.stringify(MARK)};
      const text = await transaction('a', async () => { await null; return transaction('b', () => 'done'); });
      console.log(text);`;
    const args = ['--permission', '--allow-fs-read=*', '--input-type=module', '-e', script];
    expect(execFileSync(process.execPath, args, { encoding: 'utf8', stdio: 'pipe' })).toBe('done\n');
  });

  test('is opened and closed by each worker thread for itself', () => {
    const script = `
      import { Worker, isMainThread } from 'node:worker_threads';
      import { readdirSync, readlinkSync } from 'node:fs';
      import { once } from 'node:events';
      const open = () => readdirSync('/proc/self/fd').length;
      const source = 'import(' + ${JSON.stringify(JSON.stringify(MARK))} + ').then(({ transaction }) => transaction("w", () => {}))';
      const run = () => once(new Worker(source, { eval: true }), 'exit');
      await run();
      const before = open();
      for (let i = 0; i < 3; i++) await run();
      console.log(open() - before);`;
    const output = execFileSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' });
    expect(output).toBe('0\n');
  });

  test('receives a marker that names the transaction', () => {
    const output = createMarkerOutput(path);
    carryOut(createTransactions(output).open('KREPLAY1 txn=a\n'), () => {});
    const lines = readFileSync(path, 'utf8').trimEnd().split('\n');
    expect(lines.map((line) => parseMarker(line)!.transactionId)).toEqual(['a', null]);
    closeSync(Number(fdOf(path)));
  });
});
