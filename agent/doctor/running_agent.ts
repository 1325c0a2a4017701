/** Asks the agent that records into a folder for its report. */
import { connect } from 'node:net';
import { join } from 'node:path';
import { AGENT_SOCKET, type AgentReport } from '../../bpf/schema/agent_report.ts';

const ANSWER_TIMEOUT_MS = 1000;
const ANSWER_BYTES_MAX = 1 << 16;

/** Returns undefined if there is no agent, or none that answers. */
export async function askAgent(dataFolder: string): Promise<AgentReport | undefined> {
  const socket = connect(join(dataFolder, AGENT_SOCKET));
  const timer = setTimeout(() => socket.destroy(new Error('no answer')), ANSWER_TIMEOUT_MS);
  try {
    let text = '';
    for await (const piece of socket.setEncoding('utf8')) {
      text += piece;
      if (text.length > ANSWER_BYTES_MAX) return undefined;
    }
    return JSON.parse(text) as AgentReport;
  } catch {
    return undefined;
  } finally {
    clearTimeout(timer);
    socket.destroy();
  }
}
