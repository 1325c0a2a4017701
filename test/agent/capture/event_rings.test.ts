/** Tests how CPUs are divided among event rings, on hosts of any shape, and how several rings are read as one. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import type { RingReader } from 'libbpf-ts';
import { createEventRings, EVENT_RINGS_MAX, groupCpus, planRings } from '../../../agent/capture/event_rings.ts';

const MIB = 1 << 20;
const folders: string[] = [];

afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true });
});

/** A host as sysfs shows it: for each CPU the lists of CPUs that share its caches, by level; off-line CPUs have none. */
function hostOf(possible: string, caches: Readonly<Record<number, readonly string[]>>): string {
  const folder = mkdtempSync(join(tmpdir(), 'kreplay-cpus-'));
  folders.push(folder);
  writeFileSync(join(folder, 'possible'), `${possible}\n`);
  for (const [cpu, lists] of Object.entries(caches))
    lists.forEach((list, level) => {
      // The order of the indexes is not the order of the levels on all hosts.
      const cache = join(folder, `cpu${cpu}/cache/index${lists.length - level}`);
      mkdirSync(cache, { recursive: true });
      writeFileSync(join(cache, 'level'), `${level + 1}\n`);
      writeFileSync(join(cache, 'shared_cpu_list'), `${list}\n`);
    });
  return folder;
}

describe('CPUs are grouped', () => {
  test('by last-level cache', () => {
    const host = hostOf('0-3', { 0: ['0', '0,2'], 1: ['1', '1,3'], 2: ['2', '0,2'], 3: ['3', '1,3'] });
    expect(groupCpus(host)).toEqual([
      [0, 2],
      [1, 3],
    ]);
  });

  test('in parts of at most eight where the cache is larger', () => {
    const cpus = Array.from({ length: 20 }, (_, cpu) => [cpu, ['0-19']]);
    expect(groupCpus(hostOf('0-19', Object.fromEntries(cpus))).map(({ length }) => length)).toEqual([7, 7, 6]);
  });

  test('by number where nothing is known of caches', () => {
    const groups = groupCpus(hostOf('0-9', {}));
    expect(groups).toEqual([
      [0, 1, 2, 3, 4],
      [5, 6, 7, 8, 9],
    ]);
  });

  test('with the CPU before them where they are off line', () => {
    const host = hostOf('0-2,4', { 0: ['0', '0'], 2: ['2', '2'] });
    expect(groupCpus(host)).toEqual([
      [0, 1],
      [2, 4],
    ]);
  });

  test('as this host has them: each CPU once', () => {
    const cpus = groupCpus().flat();
    expect(cpus.length).toBeGreaterThan(0);
    expect(new Set(cpus).size).toBe(cpus.length);
  });
});

const group = fc.integer({ min: 1, max: 8 });
const groupsOf = (sizes: readonly number[]) => {
  let next = 0;
  return sizes.map((size) => Array.from({ length: size }, () => next++));
};
const totalBytes = fc.integer({ min: 0, max: 11 }).map((power) => MIB * 2 ** power);

describe('rings', () => {
  test('take the memory of one ring at most, and each CPU has one of them', () => {
    fc.assert(
      fc.property(
        fc.array(group, { minLength: 1, maxLength: 100 }),
        totalBytes,
        fc.option(fc.integer({ min: 1, max: EVENT_RINGS_MAX }), { nil: undefined }),
        (sizes, bytes, wanted) => {
          const groups = groupsOf(sizes);
          const { count, ringBytes, ringOfCpu } = planRings(groups, bytes, wanted);
          expect(Number.isInteger(Math.log2(ringBytes)) && ringBytes >= 4096).toBe(true);
          expect(count * ringBytes).toBeLessThanOrEqual(bytes);
          expect(count).toBe(wanted ?? Math.min(groups.length, EVENT_RINGS_MAX, Math.max(1, bytes / (2 * MIB))));
          const used = new Set(groups.flat().map((cpu) => ringOfCpu[cpu]!));
          expect(Math.max(...used)).toBeLessThan(count);
          expect(used.size).toBe(Math.min(count, groups.flat().length));
          // CPUs of one cache have one ring, unless there are more rings than caches.
          if (count <= groups.length)
            for (const cpus of groups) expect(new Set(cpus.map((cpu) => ringOfCpu[cpu])).size).toBe(1);
        },
      ),
    );
  });

  test.each([
    ['a small host has one', [2], 16 * MIB, 1, 16 * MIB],
    ['each of four caches has one', [8, 8, 8, 8], 16 * MIB, 4, 4 * MIB],
    ['192 CPUs share eight of 2 MiB', Array<number>(24).fill(8), 16 * MIB, 8, 2 * MIB],
    ['with more memory each cache has one', Array<number>(24).fill(8), 128 * MIB, 24, 4 * MIB],
  ])('%s', (_, sizes, bytes, count, ringBytes) => {
    expect(planRings(groupsOf(sizes), bytes)).toMatchObject({ count, ringBytes });
  });
});

/** Rings that hold records of 8 bytes, each with a number. */
function fakeRings(...contents: number[][]) {
  const consumed = contents.map(() => 0);
  const readers = contents.map((content, ring) => ({
    sizeBytes: 64,
    pendingBytes: () => content.length * 8,
    consumedBytes: () => consumed[ring]!,
    takePeakBytes: () => content.length * 8,
    drain(buffer: Uint8Array, start = 0) {
      const count = Math.min(content.length, Math.floor((buffer.length - start) / 8));
      content.splice(0, count).forEach((value, i) => {
        buffer[start + i * 8] = value;
      });
      consumed[ring]! += count * 8;
      return count * 8;
    },
  }));
  return createEventRings(readers as unknown as RingReader[]);
}

describe('several rings are read as one', () => {
  const drained = (rings: ReturnType<typeof fakeRings>, records: number) => {
    const buffer = new Uint8Array(records * 8);
    const filled = rings.drain(buffer);
    return Array.from({ length: filled / 8 }, (_, i) => buffer[i * 8]);
  };

  test('each drain begins with the next ring, so that none waits behind a flood', () => {
    const rings = fakeRings([1, 2, 3, 4, 5, 6], [11], [21]);
    expect([drained(rings, 2), drained(rings, 2), drained(rings, 2), drained(rings, 9)]).toEqual([
      [1, 2],
      [11, 21],
      [3, 4],
      [5, 6],
    ]);
  });

  test('a backlog is drained when all that waited is, whatever has come since', () => {
    const contents = [[1, 2], [11], []];
    const rings = fakeRings(...contents);
    expect([rings.pendingBytes(), rings.fullestBytes(), rings.takePeakBytes()]).toEqual([24, 16, 16]);
    const isDrained = rings.markBacklog();
    contents[2]!.push(21, 22);
    contents[1]!.push(12);
    expect(isDrained()).toBe(false);
    drained(rings, 2);
    expect(isDrained()).toBe(false);
    drained(rings, 1);
    expect(isDrained()).toBe(true);
    expect(fakeRings([], []).markBacklog()()).toBe(true);
  });
});
