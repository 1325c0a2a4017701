/** Which replica the next statement goes to. */
import { isOfOneReplica, type ServerError } from './server_error.ts';
import { type Replica, replicaOf } from './settings.ts';

export interface Replicas {
  /** Each of them once, the preferred one first. */
  inTurn(): Replica[];
  /** Prefers the next one if the error comes from the state of this one. Returns whether it does. */
  passOver(replica: Replica, error: unknown): error is ServerError;
}

/** Throws a UserError for a URL that cannot be, or must not be, used. */
export function newReplicas(urls: readonly string[]): Replicas {
  const replicas = urls.map(replicaOf);
  if (replicas.length === 0) throw new Error('there is no URL');
  let preferred = 0;
  return {
    inTurn: () => [...replicas.slice(preferred), ...replicas.slice(0, preferred)],
    passOver(replica, error): error is ServerError {
      if (!isOfOneReplica(error)) return false;
      // Statements that run at the same time fail together, and pass over it once.
      if (replica === replicas[preferred]) preferred = (preferred + 1) % replicas.length;
      return true;
    },
  };
}
