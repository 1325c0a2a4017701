/** Answers questions about plans in a planner's thread. */
import type { MessagePort } from 'node:worker_threads';
import { Problem } from '../../base/problem.ts';
import { toThreadFailure } from '../../base/thread_failure.ts';
import type { Planner, ReplayPlan } from './planner.ts';
import type { FromPlanner, PlannerAnswer, PlannerQuestion, ToPlanner } from './planner_thread.ts';

/** Answers the questions that the main thread sends through `port`, for as long as the planner's thread runs. */
export function answerQuestions(port: MessagePort, planner: Planner): void {
  const plans = new Map<number, ReplayPlan>();

  /** Maps the id of each question that can be abandoned to the controller that aborts its work. */
  const abandoning = new Map<number, AbortController>();

  port.on('message', (message: ToPlanner) => {
    if ('abandoned' in message) {
      abandoning.get(message.abandoned)?.abort();
      return;
    }
    const { id, question } = message;
    answerTo(question, id).then(
      (answer) => send({ kind: 'answer', id, answer }),
      (error) => send({ kind: 'failed', id, failure: toThreadFailure(error) }),
    );
  });

  async function answerTo(question: PlannerQuestion, id: number): Promise<PlannerAnswer> {
    if (question.kind === 'what_if') return runUntilAbandoned(id, (signal) => planner.whatIf(question.request, signal));
    if (question.kind === 'curves') return runUntilAbandoned(id, (signal) => planner.curves(question.request, signal));
    if (question.kind === 'has') return planner.has(question.transactionId);
    const { plan: number, kind } = question;
    if (kind === 'open') {
      const plan = await planner.open(question.request, () => tellOutline(number));
      plans.set(number, plan);
      tellOutline(number);
      return null;
    }
    const plan = plans.get(number);
    if (!plan) throw new Problem('session_not_found', 'the session has ended');
    switch (kind) {
      case 'page':
        return plan.readPage(question.index, question.limit, question.memory);
      case 'place': {
        const place = await plan.place(question.target);
        tellOutline(number);
        return place;
      }
      case 'change_latency':
        await plan.changeLatency(question.fromIndex, question.change);
        tellOutline(number);
        return null;
      case 'change_timeout':
        await plan.changeTimeout(question.timeoutNs);
        tellOutline(number);
        return null;
      case 'end_with':
        return runUntilAbandoned(id, (signal) => plan.endWith(question.change, signal));
      case 'close':
        plans.delete(number);
        plan.close();
        return null;
    }
  }

  async function runUntilAbandoned<Answer>(
    id: number,
    work: (signal: AbortSignal) => Promise<Answer>,
  ): Promise<Answer> {
    const abandon = new AbortController();
    abandoning.set(id, abandon);
    try {
      return await work(abandon.signal);
    } finally {
      abandoning.delete(id);
    }
  }

  /** Sends the outline of a plan. After a question that changes the outline, the outline is sent before the answer. */
  function tellOutline(number: number): void {
    const plan = plans.get(number);
    if (plan) send({ kind: 'outline', plan: number, outline: plan.outline });
  }

  function send(message: FromPlanner): void {
    port.postMessage(message, listTransferred(message));
  }
}

/** Lists the memory to transfer instead of copying it: the ArrayBuffer that all columns of a page share. */
function listTransferred(message: FromPlanner): ArrayBuffer[] {
  if (
    message.kind !== 'answer' ||
    typeof message.answer !== 'object' ||
    message.answer === null ||
    !('bytes' in message.answer)
  )
    return [];
  return [message.answer.bytes.buffer as ArrayBuffer];
}
