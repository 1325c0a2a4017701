/** Tests checks of `kreplay doctor` that would need a whole host to fail, on the input that they would get there. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { clockState } from 'libbpf-ts/kernel';
import { findMissingCapabilities } from '../../../agent/capture/capabilities.ts';
import {
  diagnoseAgentRing,
  diagnoseClock,
  diagnoseLockdown,
  diagnoseMapMemory,
  diagnoseSampledRing,
  readMemoryLimit,
} from '../../../agent/doctor/diagnosis.ts';
import { sumMapMemory } from '../../../agent/doctor/map_fds.ts';
import { formatBytes, formatThreeDigits } from '../../../agent/output/amounts.ts';
import type { AgentReport } from '../../../bpf/schema/agent_report.ts';

const folder = mkdtempSync(join(tmpdir(), 'kreplay-doctor-'));

afterAll(() => rmSync(folder, { recursive: true }));

const MEBIBYTE = 1 << 20;

function fileOf(text: string): string {
  const path = join(folder, 'file');
  writeFileSync(path, text);
  return path;
}

test('lockdown: confidentiality is a problem, integrity is not, and without the file the state is unknown', () => {
  expect(diagnoseLockdown(fileOf('none integrity [confidentiality]\n'))).toMatchObject({
    state: 'failed',
    advice: expect.stringContaining('lockdown=integrity'),
  });
  expect(diagnoseLockdown(fileOf('none [integrity] confidentiality\n'))).toMatchObject({
    state: 'ok',
    text: 'integrity',
  });
  expect(diagnoseLockdown(join(folder, 'none'))).toMatchObject({
    state: 'ok',
    text: expect.stringContaining('unknown: there is no '),
  });
});

describe('the memory of the maps', () => {
  const maps = { maps: { bytes: 50e6, isAll: true }, isCharged: true, limitBytes: undefined, mayRaiseLimit: false };

  test('a cgroup without a limit or with enough room passes, and one that is too small is reported', () => {
    expect(diagnoseMapMemory(maps).state).toBe('ok');
    expect(diagnoseMapMemory({ ...maps, limitBytes: 1e9 }).state).toBe('ok');
    expect(diagnoseMapMemory({ ...maps, limitBytes: 100e6 })).toMatchObject({
      state: 'warning',
      text: expect.stringContaining('whose limit is 100 MB'),
      advice: expect.stringContaining('raise it to 184 MB'),
    });
  });

  test('where locked memory is counted, its limit is a problem unless it can be raised', () => {
    const locked = { ...maps, isCharged: false, limitBytes: 65_536 };
    expect(diagnoseMapMemory(locked)).toMatchObject({
      state: 'failed',
      advice: expect.stringContaining('LimitMEMLOCK'),
    });
    expect(diagnoseMapMemory({ ...locked, mayRaiseLimit: true }).state).toBe('ok');
    expect(diagnoseMapMemory({ ...locked, limitBytes: 64e6 }).state).toBe('ok');
    expect(diagnoseMapMemory({ ...locked, maps: undefined }).state).toBe('unknown');
  });

  test('is what the kernel reports for each map, plus the rings that it omits before 6.4', () => {
    const fdinfo = (type: number, entries: number, memlock: number) =>
      `pos:\t0\nmap_type:\t${type}\nkey_size:\t0\nmax_entries:\t${entries}\nmemlock:\t${memlock}\nmap_id:\t7\n`;
    expect(sumMapMemory([fdinfo(1, 100, 4096), fdinfo(27, 65_536, 66_000)])).toEqual({ bytes: 70_096, isAll: true });
    const earlier = sumMapMemory([fdinfo(1, 100, 4096), fdinfo(27, 65_536, 0), fdinfo(6, 1, 512)]);
    expect(earlier).toEqual({ bytes: 4096 + 65_536 + 512, isAll: false });
    expect(diagnoseMapMemory({ ...maps, maps: earlier }).text).toContain('the maps take at least 70.1 kB');
    expect([sumMapMemory([]), sumMapMemory(['pos:\t0\n'])]).toEqual([undefined, undefined]);
  });

  test('the limit is that of the cgroup or the smallest above it; a word or the huge number of v1 means no limit', () => {
    const limit = (hierarchy: 'v2' | 'v1_memory') => readMemoryLimit(true, { hierarchy, root: folder }).limitBytes;
    writeFileSync(join(folder, 'memory.max'), '104857600\n');
    writeFileSync(join(folder, 'memory.limit_in_bytes'), '9223372036854771712\n');
    expect([limit('v2'), limit('v1_memory')]).toEqual([100 * MEBIBYTE, undefined]);
    writeFileSync(join(folder, 'memory.max'), 'max\n');
    expect(limit('v2')).toBeUndefined();
  });
});

describe('the ring buffer', () => {
  const sample = { seconds: 1, events: 10_000, bytes: 1.5e6, peakBytesPerSecond: 2e6 };

  test('a ring that holds two seconds of peak load is large enough; otherwise the required size is reported', () => {
    const one = { ringCount: 1, ringBytes: 16 * MEBIBYTE };
    expect(diagnoseSampledRing(sample, one)).toMatchObject({
      state: 'ok',
      text: '10000 events/s (1.5 MB/s) in 1 s, at most 2 MB/s: 16 MiB hold 8.39 s of that',
    });
    expect(diagnoseSampledRing({ ...sample, peakBytesPerSecond: 40e6 }, one)).toMatchObject({
      state: 'warning',
      advice: '--ring-size 128, for 2 s of it',
    });
    expect(diagnoseSampledRing({ ...sample, events: 0, bytes: 0, peakBytesPerSecond: 0 }, one).state).toBe('ok');
    const four = { ringCount: 4, ringBytes: 4 * MEBIBYTE };
    expect(diagnoseSampledRing({ ...sample, peakBytesPerSecond: 3e6 }, four)).toMatchObject({
      state: 'warning',
      text: expect.stringContaining('at most 3 MB/s for one ring: 4 MiB hold 1.4 s of that'),
      advice: '--ring-size 32, for 2 s of it',
    });
  });

  test('a larger ring is advised if it was half full or lost events', () => {
    const report = (peak: number, lost: AgentReport['lost']) =>
      ({
        start_time_seconds: 900,
        ring: { count: 1, size_bytes: 16 * MEBIBYTE, pending_bytes: 0, peak_bytes: peak * MEBIBYTE },
        recorded: { sys_write: 5000, block_io: 1000 },
        lost,
      }) as unknown as AgentReport;
    const lost = [{ cause: 'ring_full', event_type: 'sys_write', count: 7 }];
    expect(diagnoseAgentRing(report(1, []), 1_000_000)).toMatchObject({
      state: 'ok',
      facts: { events_per_second: 60 },
    });
    expect(diagnoseAgentRing(report(9, []), 1_000_000)).toMatchObject({
      state: 'warning',
      advice: 'start it with --ring-size 32',
    });
    expect(diagnoseAgentRing(report(1, lost), 1_000_000)).toMatchObject({ state: 'warning', facts: { lost: 7 } });
    const shed = [{ cause: 'shed', event_type: 'sys_write', count: 3 }];
    expect(diagnoseAgentRing(report(1, [...lost, ...shed]), 1_000_000).facts).toMatchObject({ lost: 10 });
    const several = report(9, []);
    several.ring.count = 4;
    expect(diagnoseAgentRing(several, 1_000_000)).toMatchObject({
      text: expect.stringContaining('the fullest of its 4 rings of 16 MiB was 56 % full'),
      advice: 'start it with --ring-size 128',
    });
  });
});

test('an unsynchronised clock is reported; the error of a synchronised one is given in milliseconds', () => {
  expect(diagnoseClock({ synchronized: false, estimatedErrorUs: 16e6, maxErrorUs: 16e6 })).toMatchObject({
    state: 'warning',
    advice: expect.stringContaining('chrony'),
  });
  expect(diagnoseClock({ synchronized: true, estimatedErrorUs: 250, maxErrorUs: 31_000 })).toMatchObject({
    state: 'ok',
    text: 'synchronised, wrong by 0.25 ms as it believes, by 31 ms at most',
  });
  expect(diagnoseClock().facts).toMatchObject({ synchronized: clockState().synchronized });
});

test('effective capabilities are read, and CAP_SYS_ADMIN implies those that were split from it', () => {
  const status = (effective: string) => `CapInh:\t0\nCapPrm:\t000001ffffffffff\nCapEff:\t${effective}\n`;
  const wanted = ['CAP_BPF', 'CAP_PERFMON', 'CAP_SYS_PTRACE', 'CAP_CHECKPOINT_RESTORE'] as const;
  expect(findMissingCapabilities(wanted, status('0000000000000000'))).toEqual(wanted);
  expect(findMissingCapabilities(wanted, status('000000c000000000'))).toEqual([
    'CAP_SYS_PTRACE',
    'CAP_CHECKPOINT_RESTORE',
  ]);
  expect(findMissingCapabilities(wanted, status('0000000000200000'))).toEqual(['CAP_SYS_PTRACE']);
  expect(findMissingCapabilities(wanted, status('000001ffffffffff'))).toEqual([]);
});

test('amounts are printed with three digits', () => {
  expect([0, 999, 1000, 16_777_216, 50_021_752, 999_999, 1e13, 1e18].map(formatBytes)).toEqual([
    ...['0 B', '999 B', '1 kB', '16.8 MB', '50 MB', '1000 kB', '10 TB', '1000 PB'],
  ]);
  expect([0.1234, 12.345, 9999.6].map(formatThreeDigits)).toEqual(['0.123', '12.3', '10000']);
});
