/** Finds the task that queued a block request, given the ids in a recording. */
import type { Queuer } from '../../../bpf/schema/kinds.ts';

interface Names {
  name(id: number): string;
  context(id: number): { transactionId: string | null };
}

/** Returns the names of the queuer; null if the queuer is not recorded. */
export function findQueuer({ name, context }: Names, serviceId: number, contextId: number): Queuer | null {
  const service_name = name(serviceId);
  const transaction_id = context(contextId).transactionId;
  return service_name === '' && transaction_id === null ? null : { service_name, transaction_id };
}
