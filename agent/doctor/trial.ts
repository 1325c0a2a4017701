/**
 * Captures events briefly without recording them. Finds out whether capturing works on this host, how much memory it
 * takes, and the rate of events.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { FRAME_HEADER_BYTES, type RingReader } from 'libbpf-ts';
import type { CgroupHierarchy } from '../attribution/cgroups.ts';
import { openProbes } from '../capture/probes.ts';
import { type MapsTaken, readOwnMapMemory } from './map_fds.ts';

export interface Sample {
  seconds: number;
  events: number;
  bytes: number;
  /** Rate of the ring with the most bytes, in the busiest window of WINDOW_MS. */
  peakBytesPerSecond: number;
}

export interface Trial {
  attached: readonly string[];
  /** Memory that the maps take; undefined if the kernel does not report it. */
  maps: MapsTaken | undefined;
  ringCount: number;
  /** Size of each event ring. */
  ringBytes: number;
  sample: Sample;
}

const WINDOW_MS = 50;
const BUFFER_BYTES = 1 << 20;

/**
 * Loads the probes and counts events for `sampleMs`.
 *
 * @throws AgentError if capturing does not work here
 */
export async function tryCapture(
  cgroupHierarchy: CgroupHierarchy,
  options: { ringBytes: number; sampleMs: number },
): Promise<Trial> {
  const probes = openProbes({ agentPid: process.pid, cgroupHierarchy, eventBytes: options.ringBytes });
  try {
    const { attached, events, definitions, fileDefinitions } = probes;
    const maps = readOwnMapMemory();
    const buffer = new Uint8Array(BUFFER_BYTES);
    countAll(events.readers, buffer);
    const sample: Sample = { seconds: 0, events: 0, bytes: 0, peakBytesPerSecond: 0 };
    const startMs = performance.now();
    for (let windowMs = startMs; windowMs - startMs < options.sampleMs; ) {
      await sleep(WINDOW_MS);
      const counted = countAll(events.readers, buffer);
      countAll([definitions, fileDefinitions], buffer);
      const nowMs = performance.now();
      sample.events += counted.events;
      sample.bytes += counted.bytes;
      sample.peakBytesPerSecond = Math.max(sample.peakBytesPerSecond, counted.bytesMax / ((nowMs - windowMs) / 1000));
      sample.seconds = (nowMs - startMs) / 1000;
      windowMs = nowMs;
    }
    return { attached, maps, ringCount: events.readers.length, ringBytes: events.ringBytes, sample };
  } finally {
    probes.close();
  }
}

/** Counts the events in all rings. `bytesMax`: number of bytes in the ring that held the most. */
function countAll(rings: readonly RingReader[], buffer: Uint8Array): Counted & { bytesMax: number } {
  const counted = rings.map((ring) => count(ring, buffer));
  const sum = (key: keyof Counted) => counted.reduce((all, each) => all + each[key], 0);
  return { events: sum('events'), bytes: sum('bytes'), bytesMax: Math.max(...counted.map(({ bytes }) => bytes)) };
}

interface Counted {
  events: number;
  bytes: number;
}

/**
 * Counts the events in the ring, including events that arrive meanwhile. Stops at about twice the bytes that the ring
 * held at first, so that the count ends even in a flood of events.
 */
function count(ring: RingReader, buffer: Uint8Array): Counted {
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
