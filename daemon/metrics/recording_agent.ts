/** Whether somebody records, as the recording itself tells: also of an agent that can not be asked. */
import type { RecordingState } from '../store/store.ts';

/** A writer that has nothing to write says every ten seconds that it lives. */
export const SILENT_AFTER_NS = 30_000_000_000n;

/**
 * `silent`: it did not end, and yet writes nothing: it was killed, hangs, or its disk is full. `none`: no agent ever
 * recorded into this file.
 */
export const AGENT_STATES = ['recording', 'stopped', 'silent', 'none'] as const;

export interface RecordingAgent {
  state: (typeof AGENT_STATES)[number];
  /** Until when an agent is known to have recorded. */
  aliveNs: bigint | null;
}

export function agentOf({ lastWriter }: RecordingState, nowNs: bigint): RecordingAgent {
  if (!lastWriter) return { state: 'none', aliveNs: null };
  const { aliveNs, ended } = lastWriter;
  if (ended) return { state: 'stopped', aliveNs };
  return { state: nowNs - aliveNs > SILENT_AFTER_NS ? 'silent' : 'recording', aliveNs };
}
