/** Determines the order in which the programs are attached. */

/**
 * If the beginning of a call, a request or a commit is seen, its end must be seen, too, so the program at the end is
 * attached first.
 */
export const ENDS_FIRST: readonly (readonly [end: string, beginning: string])[] = [
  // Calls.
  ['call_exit', 'call_enter'],
  // Contexts, which a call sets and the exit of the task ends.
  ['task_exit', 'call_exit'],
  // HTTP requests, which begin when a read returns.
  ['http_task_exit', 'call_exit'],
  // Commits of a journal, whose thread would otherwise keep a commit that has ended.
  ['journal_commit_end', 'journal_commit_start'],
  // Transactions of a journal, which tasks join until the commit starts: owners would stay if no commit removed them.
  ['journal_commit_start', 'journal_handle_start'],
  ['journal_commit_start', 'journal_handle_restart'],
  // Requests to devices.
  ['block_complete', 'block_issue'],
];

/**
 * Puts each program after the programs that see the ends of what it sees the beginning of (`ENDS_FIRST`); the order is
 * otherwise kept.
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
