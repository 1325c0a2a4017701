/** Whether somebody records: as the recording and its lock say, and as the agent answers when it is asked. */
import type { AgentReport } from '../../bpf/schema/agent_report.ts';
import type { RecordingState } from '../store/store.ts';
import { isSilent } from '../store/writer_state.ts';

/**
 * `failing`: it is there, and says that it cannot write. `killed`: it did not end, and is gone. `silent`: it is there and writes nothing: it hangs, is stopped, or its disk is
 * slow or full. `none`: no agent ever recorded into this file.
 */
export const AGENT_STATES = ['recording', 'failing', 'stopped', 'killed', 'silent', 'none'] as const;

export interface RecordingAgent {
  state: (typeof AGENT_STATES)[number];
  /** Until when an agent is known to have recorded. */
  aliveNs: bigint | null;
}

/** `answer`: what the agent of the data folder says of itself, where it was asked. */
export function agentOf(
  { lastWriter, source }: RecordingState,
  nowNs: bigint,
  answer?: AgentReport | 'silent',
): RecordingAgent {
  if (!lastWriter) return { state: 'none', aliveNs: null };
  const aliveNs = lastWriter.toNs;
  if (lastWriter.end === 'closed') return { state: 'stopped', aliveNs };
  if (lastWriter.end === 'killed') return { state: 'killed', aliveNs };
  if (source === 'live' && answer !== 'silent' && answer?.failure) return { state: 'failing', aliveNs };
  return { state: answer === 'silent' || isSilent(lastWriter, nowNs) ? 'silent' : 'recording', aliveNs };
}
