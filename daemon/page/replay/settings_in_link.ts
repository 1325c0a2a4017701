/**
 * Converts the settings of a session to and from the link, so that a session that no longer exists can be created again
 * from its link.
 */
import type { Only, ReceivedSession } from '../../contract/received.ts';
import type { LinkedClockOffsets } from '../link/clock_offsets.ts';
import type { Link } from '../link/link.ts';

/** Settings of a new session other than its transaction: fields of `POST /api/replay/sessions`. */
export interface NewSessionSettings {
  speed_factor?: number;
  extra_latency_ns?: bigint;
  timeout_ns?: bigint | null;
  max_gap_ns?: bigint | null;
  only?: Only;
  clock_offsets_ns?: Record<string, bigint>;
}

type OnlyLists = Pick<Link, 'only_event_type' | 'only_service' | 'only_node'>;
type Settings = OnlyLists & Pick<Link, 'latency' | 'timeout' | 'speed' | 'max_gap'>;

/** Maximum number of decimal places of speeds in a link. */
const SPEED_DECIMALS = 6;

export function buildOnlyFilter({ only_event_type, only_service, only_node }: OnlyLists): Only {
  return {
    ...(only_event_type.length > 0 && { event_type: only_event_type }),
    ...(only_service.length > 0 && { service: only_service }),
    ...(only_node.length > 0 && { node: only_node }),
  };
}

export function buildSessionSettings(link: Settings, offsets: LinkedClockOffsets): NewSessionSettings {
  return {
    ...(link.speed !== null && { speed_factor: link.speed }),
    ...(link.latency !== null && { extra_latency_ns: link.latency }),
    ...(link.timeout !== null && { timeout_ns: link.timeout }),
    ...(link.max_gap !== null && { max_gap_ns: link.max_gap }),
    only: buildOnlyFilter(link),
    clock_offsets_ns: buildOffsetsField(offsets),
  };
}

/**
 * Converts the map to an object. `Object.fromEntries` also stores a node called `__proto__`, which an assignment would
 * not.
 */
export function buildOffsetsField(offsets: LinkedClockOffsets): Record<string, bigint> {
  return Object.fromEntries(offsets);
}

export type ShownSettings = Pick<ReceivedSession, 'speed_factor' | 'extra_latency_ns' | 'max_gap_ns' | 'loop'>;

/** Returns the settings that a session created from the link would have. */
export function buildExpectedSettings({ speed, latency, max_gap }: Settings): ShownSettings {
  return { speed_factor: speed ?? 1, extra_latency_ns: latency ?? 0n, max_gap_ns: max_gap, loop: false };
}

type LinkedSettings = Pick<ReceivedSession, 'speed_factor' | 'extra_latency_ns' | 'timeout_ns' | 'max_gap_ns' | 'only'>;

/** Returns the change of the link that stores the settings of a session. */
export function linkSettings({
  speed_factor,
  extra_latency_ns,
  timeout_ns,
  max_gap_ns,
  only,
}: LinkedSettings): Settings {
  const speed = Number(speed_factor.toFixed(SPEED_DECIMALS));
  const latency = BigInt(extra_latency_ns);
  return {
    speed: speed === 1 ? null : speed,
    latency: latency === 0n ? null : latency,
    timeout: timeout_ns === null ? null : BigInt(timeout_ns),
    max_gap: max_gap_ns === null ? null : BigInt(max_gap_ns),
    only_event_type: only.event_type ?? [],
    only_service: only.service ?? [],
    only_node: only.node ?? [],
  };
}
