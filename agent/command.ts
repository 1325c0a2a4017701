/** `kreplay agent`: records this host's events. */
import { Command } from 'commander';
import { DATA_DEFAULT, runAgent } from './agent.ts';
import { endingSignal } from './ending.ts';

interface AgentFlags {
  data: string;
  node?: string;
  trustServices: boolean;
}

export function agentCommand(): Command {
  return new Command('agent')
    .description('record the events of this host (as root, or with CAP_BPF and CAP_PERFMON)')
    .option('--data <folder>', 'folder to record into', DATA_DEFAULT)
    .option('--node <name>', 'name of this host in the recording (default: its host name)')
    .option(
      '--trust-services',
      'believe any user who names a service in a marker line, not only root and the own user',
      false,
    )
    .action(record);
}

async function record({ data, node, trustServices }: AgentFlags): Promise<void> {
  const totals = await runAgent({
    dataFolder: data,
    node,
    trustAllServices: trustServices,
    signal: endingSignal(),
    onReady({ attached, recording }) {
      process.stdout.write(`kreplay agent: attached ${attached.join(', ')}\n`);
      process.stdout.write(`kreplay agent: recording to ${recording}\n`);
      process.send?.('ready');
    },
    onProblem: (message) => process.stderr.write(`kreplay agent: ${message}\n`),
  });
  const lost = totals.lost > 0 ? `, ${totals.lost} lost` : '';
  process.stdout.write(`kreplay agent: recorded ${totals.events} events${lost}\n`);
}
