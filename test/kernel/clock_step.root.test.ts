/** The wall clock is set while a real agent's parts record: past events keep their time, later ones have the new. */
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { readClocks } from 'libbpf-ts/kernel';
import type { ReadClocks } from '../../agent/capture/wall_clock.ts';
import { openReader } from '../../agent/recording/read/reader.ts';
import { rowsOf, temporaryFolder } from '../agent/recording/fixture.ts';
import { openRecorderParts } from './recorder_parts.ts';

const HOUR_NS = 3_600_000_000_000n;
const WRITES = 20;

const folder = temporaryFolder();
afterAll(() => folder.remove());

function setUp() {
  const path = join(folder.path, 'recording.kreplay');
  const set = { byNs: 0n, sleptNs: 0n };
  // Reads the kernel's own clocks, and shifts them as if the wall clock had been set or the machine suspended.
  const read: ReadClocks = (into) => {
    readClocks(into);
    into[0]! += set.byNs;
    into[3]! -= set.sleptNs;
  };
  const { clock, writer, recorder, remove } = openRecorderParts(path, read, { eventBytes: 1 << 20 });
  /** Recorded start times of the writes of a child, and the wall clock before and after them. */
  function write(transaction: string) {
    recorder.drain();
    const from = clock.nowNs();
    const script = `echo 'KREPLAY1 txn=${transaction}' > /dev/null; i=0; while [ $i -lt ${WRITES} ]; do echo x; i=$((i+1)); done`;
    execFileSync('sh', ['-c', script]);
    const to = clock.nowNs();
    recorder.drain();
    writer.flush();
    return { from, to, times: timesOf(transaction) };
  }
  function timesOf(transactionId: string): bigint[] {
    const reader = openReader(path);
    const rows = [...reader.scan({ filter: { transactionId } })].flatMap(rowsOf);
    reader.close();
    return rows.map(({ timestamp_ns }) => timestamp_ns as bigint);
  }
  function steps() {
    const reader = openReader(path);
    const found = reader.clockSteps().filter(({ kind }) => kind !== 'slew');
    reader.close();
    return found;
  }
  return { set, write, timesOf, steps, remove };
}

test('steps forwards and backwards, and a suspend', () => {
  const { set, write, timesOf, steps, remove } = setUp();
  const written = new Map<string, bigint[]>();
  for (const [transaction, byNs] of [
    ['before', 0n],
    ['later', HOUR_NS],
    ['earlier', -2n * HOUR_NS],
  ] as const) {
    set.byNs += byNs;
    const { from, to, times } = write(transaction);
    expect(times).toHaveLength(WRITES);
    for (const time of times) expect(time > from && time < to).toBe(true);
    written.set(transaction, times);
  }
  set.sleptNs += HOUR_NS;
  write('awake');
  for (const [transaction, times] of written) expect(timesOf(transaction)).toEqual(times);
  const [start, forwards, backwards, slept] = steps();
  expect([start, forwards, backwards, slept].map((step) => step?.kind)).toEqual(['start', 'step', 'step', 'suspend']);
  const movedNs = [forwards!.offsetNs - start!.offsetNs, backwards!.offsetNs - forwards!.offsetNs];
  // Compared to the millisecond: the machine's own clock may be corrected meanwhile.
  expect(movedNs.map((ns) => Number(ns) / 1e6)).toEqual([
    expect.closeTo(Number(HOUR_NS) / 1e6, 0),
    expect.closeTo(Number(-2n * HOUR_NS) / 1e6, 0),
  ]);
  expect(Number(slept!.suspendedNs) / 1e9).toBeCloseTo(3600, 0);
  remove();
});
