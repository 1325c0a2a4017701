// The judge of a soak finds what is missing and not reported, what is reported and not missing, and what grows.
import type { Loss } from '../../agent/recording/format/losses.ts';
import { accountOf, type Batch } from './account.ts';
import { growthsOf, type Sample } from './samples.ts';

const MS = 1_000_000n;
const COUNT = 10;

/** Ten writes are made every 10 ms. */
const BATCHES: Batch[] = Array.from({ length: 20 }, (_, i) => ({
  first: 1 + i * COUNT,
  count: COUNT,
  beganNs: BigInt(i) * 10n * MS,
  endedNs: BigInt(i) * 10n * MS + MS,
}));

function loss(
  cause: Loss['cause'],
  count: number,
  fromMs: number,
  toMs: number,
  eventType: Loss['eventType'] = null,
): Loss {
  return { cause, eventType, count, fromNs: BigInt(fromMs) * MS, toNs: BigInt(toMs) * MS };
}

const ringFull = (count: number, fromMs: number, toMs: number) => loss('ring_full', count, fromMs, toMs, 'sys_write');

/** The account of a recording that has all writes except `missing`. */
function account(missing: readonly number[], ...losses: Loss[]) {
  const { made, recorded, counted, uncounted, untold, wrong } = accountOf(
    BATCHES,
    (number) => !missing.includes(number),
    losses,
  );
  return { made, recorded, counted, uncounted, untold, wrong: wrong.length };
}

const right = { made: 200, uncounted: 0, untold: 0, wrong: 0 };

describe('events', () => {
  test('that are all there', () => {
    expect(account([])).toEqual({ ...right, recorded: 200, counted: 0 });
  });

  test('with a counted loss are right if that many are missing in its time', () => {
    expect(account([31, 32, 41], ringFull(3, 25, 45))).toEqual({ ...right, recorded: 197, counted: 3 });
    expect(account([31, 32, 41], ringFull(2, 25, 45)).wrong).toBe(1);
    expect(account([31, 32, 41], ringFull(4, 25, 45)).wrong).toBe(1);
    expect(account([], ringFull(1, 25, 45)).wrong).toBe(1);
  });

  test('with adjacent losses count as one time, and others do not', () => {
    expect(account([31, 41, 42], ringFull(1, 25, 35), ringFull(2, 35, 45)).wrong).toBe(0);
    expect(account([31, 101], ringFull(2, 25, 35), ringFull(0, 95, 105)).wrong).toBe(2);
  });

  test('that no loss covers are unreported', () => {
    expect(account([31], ringFull(1, 100, 120))).toEqual({ ...right, recorded: 199, counted: 0, untold: 1, wrong: 2 });
    expect(account([31], loss('retention', 1, 25, 45))).toMatchObject({ untold: 1 });
    expect(account([31], loss('marker_unreadable', 1, 25, 45))).toMatchObject({ untold: 1 });
  });

  test('of a killed agent may be missing in any number, but not fewer than are reported', () => {
    const killed = loss('agent_killed', 0, 25, 65);
    expect(account([31, 41, 61], killed)).toEqual({ ...right, recorded: 197, counted: 0, uncounted: 3 });
    expect(account([31, 41, 61], killed, ringFull(1, 20, 30))).toMatchObject({ counted: 1, uncounted: 2, wrong: 0 });
    expect(account([31], killed, ringFull(2, 20, 30)).wrong).toBe(1);
    expect(account([91], killed)).toMatchObject({ untold: 1, wrong: 1 });
  });

  test('reported without a type may belong to another process', () => {
    expect(account([], loss('program_busy', 5, 25, 45)).wrong).toBe(0);
    expect(account([31, 32], loss('program_busy', 5, 25, 45))).toMatchObject({ counted: 2, wrong: 0 });
    expect(account([31, 32], loss('program_busy', 1, 25, 45)).wrong).toBe(1);
  });
});

describe('growth', () => {
  function grown(values: (second: number) => Partial<Sample>) {
    const calm = { agent_rss_bytes: 1e8, agent_fds: 80, agent_bpf_maps: 27, daemon_rss_bytes: 2e8, daemon_fds: 40 };
    const samples = Array.from({ length: 400 }, (_, second) => ({
      ...{ at_ms: second * 1000, ...calm, recording_bytes: 6e6 },
      ...values(second),
    }));
    return growthsOf(samples).flatMap(({ measure, flat }) => (flat ? [] : [measure]));
  }

  test('is not found in values that go up and down', () => {
    expect(grown((second) => ({ agent_rss_bytes: 1e8 + (second % 7) * 1e7, daemon_fds: 40 + (second % 5) }))).toEqual(
      [],
    );
  });

  test('is found in values that go up', () => {
    expect(grown((second) => ({ agent_rss_bytes: 1e8 + second * 1e5 + (second % 7) * 1e7 }))).toEqual([
      'agent_rss_bytes',
    ]);
    expect(grown((second) => ({ agent_fds: 80 + second / 100, agent_bpf_maps: 27 + second / 200 }))).toEqual([
      'agent_fds',
      'agent_bpf_maps',
    ]);
    expect(grown((second) => ({ recording_bytes: 6e6 + second * 2e4 }))).toEqual(['recording_bytes']);
  });
});
