/** Formats the demo's results: what happened, what was slow, and how to continue. */
import { headline, slowestTable, slowSpot } from '../print/transaction_report.ts';
import type { Recorded } from './recorded.ts';
import { TRANSACTION } from './workload.ts';

const MILLISECOND_NS = 1_000_000n;

export function reportText({ summary, complete }: Recorded): string {
  return `${headline(summary, complete)}

The slowest calls:
${slowestTable(summary)}
${slowSpot(summary)}
`;
}

export interface NextStepOptions {
  /** Command that starts kreplay in this shell. */
  program: string;
  /** `--url ...` or `--recording ...`; empty if the default is right. */
  asked: string;
  /** The same option for `kreplay run`. */
  run: string;
  script: string;
}

/** Quotes text for a shell, if necessary. */
export function shellWord(text: string): string {
  return /^[\w./:@%+=-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/** The timeout of a caller that would have waited for twice as long. */
function timeoutOf({
  summary: {
    transaction: { duration_ns },
  },
}: Recorded): string {
  return `${(BigInt(duration_ns) * 2n) / MILLISECOND_NS + 1n}ms`;
}

export function nextSteps(recorded: Recorded, { program, asked, run, script }: NextStepOptions): string {
  const of = (...words: string[]) => `  ${[program, ...words].filter((word) => word !== '').join(' ')}\n`;
  return [
    'what it did, call by call:\n',
    of('events', asked, '--transaction', TRANSACTION, '--min-duration', '1ms'),
    'whether a caller would have got its answer in time if each call had taken 2 ms longer:\n',
    of('whatif', TRANSACTION, asked, '--extra-latency', '2ms', '--timeout', timeoutOf(recorded), '--output', 'table'),
    'the same program again, with every call as slow as that:\n',
    of('run', run, '--transaction', TRANSACTION, '--extra-latency', '2ms', '--', 'sh', shellWord(script)),
  ].join('');
}
