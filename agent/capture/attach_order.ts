/** Determines the order in which the programs are attached. */

/**
 * Pairs of programs: the first sees the end of a call, a request or a commit, the second its beginning. The first is
 * attached first, so that no end is missed after its beginning was seen.
 */
export const ENDS_FIRST: readonly (readonly [end: string, beginning: string])[] = [
  // Calls.
  ['call_exit', 'call_enter'],
  // Contexts: a call sets a context, and the exit of the task ends it.
  ['task_exit', 'call_exit'],
  // HTTP requests: a request begins when a read returns.
  ['http_task_exit', 'call_exit'],
  // Commits of a journal. If an end were missed, the journal's thread would keep a commit that has ended.
  ['journal_commit_end', 'journal_commit_start'],
  // Transactions of a journal. Tasks join a transaction as owners until its commit starts, which removes the owners.
  ['journal_commit_start', 'journal_handle_start'],
  ['journal_commit_start', 'journal_handle_restart'],
  // Requests to devices.
  ['block_complete', 'block_issue'],
];

/**
 * Orders the programs so that the program for an end comes before the program for the beginning (`ENDS_FIRST`).
 * Otherwise keeps the given order.
 */
export function orderToAttach(programs: readonly string[]): string[] {
  const order = new Set<string>();
  function add(program: string): void {
    for (const [end, beginning] of ENDS_FIRST) if (beginning === program && programs.includes(end)) add(end);
    order.add(program);
  }
  programs.forEach(add);
  return [...order];
}
