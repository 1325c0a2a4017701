/** Measures what a soak's processes and file take, second by second, and whether that grows. */
import { readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';

export interface Sample {
  at_ms: number;
  agent_rss_bytes: number;
  agent_fds: number;
  agent_bpf_maps: number;
  daemon_rss_bytes: number;
  daemon_fds: number;
  recording_bytes: number;
}

export type Measure = Exclude<keyof Sample, 'at_ms'>;

/** Undefined while one of the processes is not there. */
export function sampleOf(agentPid: number, daemonPid: number, dataFolder: string): Sample | undefined {
  try {
    return {
      at_ms: performance.now(),
      agent_rss_bytes: residentBytes(agentPid),
      agent_fds: readdirSync(`/proc/${agentPid}/fd`).length,
      agent_bpf_maps: bpfMaps(agentPid).length,
      daemon_rss_bytes: residentBytes(daemonPid),
      daemon_fds: readdirSync(`/proc/${daemonPid}/fd`).length,
      recording_bytes: recordingBytes(dataFolder),
    };
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOENT' || code === 'ESRCH') return undefined;
    throw error;
  }
}

function residentBytes(pid: number): number {
  const kilobytes = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'));
  // A process that has ended, and has not been waited for, has no VmRSS.
  if (!kilobytes) throw Object.assign(new Error('it has ended'), { code: 'ESRCH' });
  return Number(kilobytes[1]) * 1024;
}

/** Ids of the maps that a process holds. */
export function bpfMaps(pid: number): number[] {
  const folder = `/proc/${pid}/fdinfo`;
  return readdirSync(folder).flatMap((fd) => {
    try {
      const id = /^map_id:\s+(\d+)$/m.exec(readFileSync(join(folder, fd), 'utf8'));
      return id ? [Number(id[1])] : [];
    } catch {
      // It was closed meanwhile.
      return [];
    }
  });
}

function recordingBytes(dataFolder: string): number {
  const files = readdirSync(dataFolder).filter((name) => name.startsWith('recording.kreplay'));
  return files.reduce((sum, name) => sum + statSync(join(dataFolder, name)).size, 0);
}

/** Growth beyond this, over the time that is judged, is too much. Sizes in bytes are noisy, counts are not. */
const TOLERATED: Record<Measure, number> = {
  agent_rss_bytes: 24 << 20,
  agent_fds: 1,
  agent_bpf_maps: 0.5,
  daemon_rss_bytes: 48 << 20,
  // Connections of clients come and go.
  daemon_fds: 8,
  recording_bytes: 4 << 20,
};

export interface Growth {
  measure: Measure;
  median: number;
  /** The slope of a line through all samples, times the time from the first to the last. */
  growth: number;
  tolerated: number;
  flat: boolean;
}

/** Before this age heaps still grow to what they need, and code is still compiled. */
const YOUNG_MS = 300_000;

export function growthsOf(samples: readonly Sample[]): Growth[] {
  const isYoung = samples.at(-1)!.at_ms - samples[0]!.at_ms < YOUNG_MS;
  return (Object.keys(TOLERATED) as Measure[]).map((measure) => {
    const values = samples.map((sample) => sample[measure]);
    const times = samples.map(({ at_ms }) => at_ms);
    const growth = slopeOf(times, values) * (times.at(-1)! - times[0]!);
    const tolerated = TOLERATED[measure] * (isYoung && measure.endsWith('_rss_bytes') ? 2 : 1);
    return { measure, median: medianOf(values), growth, tolerated, flat: growth <= tolerated };
  });
}

/** The slope of the least-squares line. */
export function slopeOf(xs: readonly number[], ys: readonly number[]): number {
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const [x, y] = [mean(xs), mean(ys)];
  const covariance = xs.reduce((sum, value, i) => sum + (value - x) * (ys[i]! - y), 0);
  const variance = xs.reduce((sum, value) => sum + (value - x) ** 2, 0);
  return covariance / variance;
}

function medianOf(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1]!;
}
