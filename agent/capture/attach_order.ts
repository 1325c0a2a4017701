/** Determines the order in which the programs are attached. */

/**
 * If a call's or request's beginning is seen, its end must be seen, too, so the program at the end is attached first.
 */
export const ENDS_FIRST: readonly (readonly [end: string, beginning: string])[] = [
  // Calls.
  ['call_exit', 'call_enter'],
  // Contexts, which a call sets and the exit of the task ends.
  ['task_exit', 'call_exit'],
  // HTTP requests, which begin when a read returns.
  ['http_task_exit', 'call_exit'],
  // Requests to devices.
  ['block_complete', 'block_issue'],
];

/**
 * Puts each program after the programs that see the ends of the calls and requests whose beginning it sees
 * (`ENDS_FIRST`); the order is otherwise kept.
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
