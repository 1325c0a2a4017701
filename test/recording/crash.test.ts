/** A writer in another process, killed at random instants or read while it writes. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { openReader } from '../../agent/recording/reader.ts';
import type { NumberedBlock } from '../../bpf/schema/block.ts';
import { numbersOf, temporaryFolder, testWriter } from './fixture.ts';

const folder = temporaryFolder();
afterAll(() => folder.remove());

interface Child {
  process: ChildProcess;
  /** Events that it said are safe. */
  acknowledged(): number;
}

function startWriter(path: string): Child {
  const child = spawn(process.execPath, [join(import.meta.dirname, 'fixture_writer.ts'), path], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let last = 0;
  let rest = '';
  child.stdout!.setEncoding('utf8').on('data', (text: string) => {
    const lines = (rest + text).split('\n');
    rest = lines.pop()!;
    if (lines.length > 0) last = Number(lines.at(-1));
  });
  return { process: child, acknowledged: () => last };
}

async function firstFlush(child: Child): Promise<void> {
  while (child.acknowledged() === 0) await once(child.process.stdout!, 'data');
}

/** Rows of each flush, by the writer's process and its flush number. */
function countFlushes(blocks: Iterable<NumberedBlock>): Map<string, { rows: number; expected: number }> {
  const flushes = new Map<string, { rows: number; expected: number }>();
  for (const block of blocks) {
    const [pid, tid] = ['pid', 'tid'].map((name) => block.columns.get(name)! as Uint32Array);
    const size = block.columns.get('duration_ns')! as BigUint64Array;
    for (let row = 0; row < block.rowCount; row++) {
      const key = `${pid![row]}-${tid![row]}`;
      const flush = flushes.get(key) ?? { rows: 0, expected: Number(size[row]!) };
      flush.rows++;
      flushes.set(key, flush);
    }
  }
  return flushes;
}

function expectWhole(blocks: Iterable<NumberedBlock>): void {
  for (const { rows, expected } of countFlushes(blocks).values()) expect(rows).toBe(expected);
}

test('a writer that is killed loses nothing that it has flushed, and numbers do not repeat', async () => {
  const path = join(folder.path, 'recording.kreplay');
  let safe = 0;
  for (let round = 0; round < 8; round++) {
    const child = startWriter(path);
    await firstFlush(child);
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 250));
    child.process.kill('SIGKILL');
    await once(child.process, 'close');
    const reader = openReader(path);
    const blocks = [...reader.scan({})];
    const { eventCount } = reader.info();
    reader.close();
    expect(eventCount).toBeGreaterThanOrEqual(safe + child.acknowledged());
    expect(numbersOf(blocks).sort((a, b) => a - b)).toEqual(Array.from({ length: eventCount }, (_, i) => i));
    expectWhole(blocks);
    safe = eventCount;
  }
  testWriter(path).close();
  const reader = openReader(path);
  expect(reader.info().eventCount).toBe(safe);
  for (const one of reader.transactions({ limit: 50 })) {
    expect(numbersOf(reader.scan({ filter: { transactionId: one.transactionId } }))).toHaveLength(one.eventCount);
  }
  reader.close();
});

test('a reader beside a writer sees whole flushes, each once', async () => {
  const path = join(folder.path, 'live.kreplay');
  const child = startWriter(path);
  await firstFlush(child);
  const reader = openReader(path);
  const until = Date.now() + 2000;
  let seen = 0;
  while (Date.now() < until) {
    const safe = child.acknowledged();
    const blocks: NumberedBlock[] = [];
    for (const block of reader.scan({ order: seen % 2 === 0 ? 'asc' : 'desc', blockRowsMax: 500 })) {
      blocks.push(block);
      // Lets the writer commit in between, and the acknowledgements arrive.
      await new Promise((resolve) => setImmediate(resolve));
    }
    const numbers = numbersOf(blocks);
    expect(new Set(numbers).size).toBe(numbers.length);
    expect(numbers.length).toBeGreaterThanOrEqual(safe);
    expect(Math.max(...numbers.slice(0, 50_000))).toBeLessThan(numbers.length);
    expectWhole(blocks);
    seen++;
  }
  child.process.kill('SIGKILL');
  await once(child.process, 'close');
  reader.close();
  expect(seen).toBeGreaterThan(3);
});
