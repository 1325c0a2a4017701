/** The demo's agent, which runs as a process of its own, as it does outside the demo. */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { CommandError } from '../client/command_error.ts';
import { programName } from './program_name.ts';

/** An agent that does not end within this time is killed, which a recording survives. */
const END_TIMEOUT_MS = 10_000;

export interface AgentProcess {
  /** Resolves when the process has ended. */
  end(): Promise<void>;
}

/** Resolves when all probes are attached. The agent records only what carries a label, nothing else on this host. */
export async function startAgent(dataFolder: string): Promise<AgentProcess> {
  // Runs in its own process group, so that Ctrl-C reaches only the demo. If the demo is killed, the agent ends by
  // itself.
  const child = fork(process.argv[1]!, ['agent', `--data=${dataFolder}`, '--only-labelled'], {
    detached: true,
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  });
  let complaints = '';
  const gather = (text: string) => {
    complaints += text;
  };
  child.stderr!.setEncoding('utf8').on('data', gather);
  const ended = once(child, 'close');
  const isReady = await Promise.race([once(child, 'message').then(() => true), ended.then(() => false)]);
  if (!isReady) throw new CommandError(whyNot(complaints));
  child.stderr!.off('data', gather).pipe(process.stderr, { end: false });
  return {
    async end() {
      const timer = setTimeout(() => child.kill('SIGKILL'), END_TIMEOUT_MS);
      child.kill('SIGTERM');
      await ended;
      clearTimeout(timer);
    },
  };
}

function whyNot(complaints: string): string {
  const why = complaints.trim().replace(/^kreplay: /, '') || 'it reported no cause';
  const doctor = `\`${programName()} doctor\` reports what this host lacks`;
  const next = process.getuid!() === 0 ? doctor : `try \`sudo ${programName()} demo\`; ${doctor}`;
  return `the demo's agent cannot record: ${why}; ${next}`;
}
