/** Captures for a moment, and records nothing: whether it works here, what it takes, and how much there is. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { FRAME_HEADER_BYTES, type RingReader } from 'libbpf-ts';
import type { CgroupHierarchy } from '../attribution/cgroups.ts';
import { openProbes } from '../capture/probes.ts';

export interface Sample {
  seconds: number;
  events: number;
  bytes: number;
  /** Of the busiest window. */
  peakBytesPerSecond: number;
}

export interface Trial {
  attached: readonly string[];
  /** Kernel memory of the maps; undefined when the kernel does not say. */
  mapBytes: number | undefined;
  ringBytes: number;
  sample: Sample;
}

const WINDOW_MS = 50;
const BUFFER_BYTES = 1 << 20;

/** @throws AgentError when it does not work here */
export async function tryCapture(
  cgroupHierarchy: CgroupHierarchy,
  options: { ringBytes: number; sampleMs: number },
): Promise<Trial> {
  const probes = openProbes({ agentPid: process.pid, cgroupHierarchy, eventRingBytes: options.ringBytes });
  try {
    const { attached, events, definitions, eventRingBytes } = probes;
    const mapBytes = mapMemory();
    const buffer = new Uint8Array(BUFFER_BYTES);
    count(events, buffer);
    const sample: Sample = { seconds: 0, events: 0, bytes: 0, peakBytesPerSecond: 0 };
    const startMs = performance.now();
    for (let windowMs = startMs; windowMs - startMs < options.sampleMs; ) {
      await sleep(WINDOW_MS);
      const counted = count(events, buffer);
      while (definitions.drain(buffer) > 0);
      const nowMs = performance.now();
      sample.events += counted.events;
      sample.bytes += counted.bytes;
      sample.peakBytesPerSecond = Math.max(sample.peakBytesPerSecond, counted.bytes / ((nowMs - windowMs) / 1000));
      sample.seconds = (nowMs - startMs) / 1000;
      windowMs = nowMs;
    }
    return { attached, mapBytes, ringBytes: eventRingBytes, sample };
  } finally {
    probes.close();
  }
}

/** Takes what is in the ring; of what comes meanwhile no more than twice as much, so that it ends. */
function count(ring: RingReader, buffer: Uint8Array): { events: number; bytes: number } {
  const view = new DataView(buffer.buffer);
  const bytesMax = 2 * ring.pendingBytes();
  let [events, bytes] = [0, 0];
  while (bytes < bytesMax) {
    const filled = ring.drain(buffer);
    if (filled === 0) break;
    bytes += filled;
    for (let at = 0; at < filled; events++) {
      at += FRAME_HEADER_BYTES + Math.ceil(view.getUint32(at, true) / 8) * 8;
    }
  }
  return { events, bytes };
}

/** Of the maps that this process holds, as bpf_map_show_fdinfo() tells it. */
function mapMemory(): number | undefined {
  let bytes: number | undefined;
  for (const fd of readdirSync('/proc/self/fd')) {
    try {
      if (!readlinkSync(`/proc/self/fd/${fd}`).endsWith('bpf-map')) continue;
      const [, memory] = /^memlock:\s*(\d+)$/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8')) ?? [];
      if (memory !== undefined) bytes = (bytes ?? 0) + Number(memory);
    } catch {
      // The one that the folder was read by.
    }
  }
  return bytes;
}
