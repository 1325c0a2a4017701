/**
 * Tracks which transaction the thread works for, and reports every change to the kernel.
 *
 *                    callback of A        callback of none
 *   hook             before    after      before       after
 *   marker written   A         end        -            -
 *
 * AsyncLocalStorage knows which transaction a callback belongs to, await's continuations included, but does not
 * announce changes; a hook on every callback does. After a callback, the thread returns to the transaction before it:
 * libuv itself writes as well, the rest of a response for instance, and that belongs to none.
 */
import { AsyncLocalStorage, AsyncResource, createHook, executionAsyncResource } from 'node:async_hooks';
import type { MarkerOutput } from './marker_output.ts';

const END = 'KREPLAY1 end\n';

export interface Transaction {
  /** Runs `fn`, and whatever it starts, in the transaction. */
  run<T>(fn: () => T): T;
  /** Ends the transaction: work that goes on in it belongs to the enclosing transaction from its next callback on. */
  close(): void;
}

export interface Transactions {
  /** `line` is the marker line, LF included. */
  open(line: string): Transaction;
}

interface MarkedTransaction extends Transaction {
  line: string;
  open: boolean;
  around: MarkedTransaction | undefined;
}

interface AsyncScope {
  asyncId: number;
  kind: 'promise' | 'sweep' | 'other';
  /** The transaction that the thread worked for when the scope began. */
  outside: MarkedTransaction | undefined;
}

/** A thread needs exactly one `Transactions`, because it has one label. */
export function createTransactions(write: MarkerOutput): Transactions {
  const storage = new AsyncLocalStorage<MarkedTransaction>();
  const hook = createHook({ before: makeHarmless(enter), after: makeHarmless(leave) });
  /** Callbacks that are running, each inside the previous one. */
  const scopes: AsyncScope[] = [];
  let openCount = 0;
  let running: MarkedTransaction | undefined;
  /** The marker line in effect; undefined if a marker could not be written. */
  let shown: string | undefined = END;
  let looking = false;
  /** The job that gives the thread back to the transaction `sweepsTo`. */
  let sweep: Promise<void> | undefined;
  let sweepsTo: MarkedTransaction | undefined;
  /** Number of scopes that did not belong to `sweepsTo`. */
  let ownedCount = 0;
  /** Whether no enclosing callback can have begun before the hook was enabled. */
  let seesAll = false;
  const nowhere = new AsyncResource('kreplay.mark');

  function show(owner: MarkedTransaction | undefined): void {
    running = owner;
    const line = owner ? owner.line : END;
    if (line !== shown) shown = write(line) ? line : undefined;
  }

  function current(): MarkedTransaction | undefined {
    return findOpenOwner(storage.getStore());
  }

  /** Catches all exceptions, because an exception in a hook would end the process. */
  function makeHarmless(listener: (asyncId: number) => void): (asyncId: number) => void {
    return (asyncId) => {
      if (looking) return;
      try {
        listener(asyncId);
      } catch {
        show(undefined);
      }
    };
  }

  function enter(asyncId: number): void {
    const resource = executionAsyncResource();
    const kind = resource === sweep ? 'sweep' : resource instanceof Promise ? 'promise' : 'other';
    scopes.push({ asyncId, kind, outside: running });
    if (kind === 'sweep') return;
    show(resource instanceof AsyncResource ? runAside(resource, current) : current());
    if (running !== sweepsTo) ownedCount++;
  }

  /**
   * Runs `fn` in the context of a resource and ignores the hooks that this calls. runInAsyncScope() changes the context
   * only after it has called the hooks, so in a hook the old context is still in place.
   */
  function runAside<T>(resource: AsyncResource, fn: () => T): T {
    looking = true;
    try {
      return AsyncResource.prototype.runInAsyncScope.call(resource, fn) as T;
    } finally {
      looking = false;
    }
  }

  function leave(asyncId: number): void {
    // A scope that is not found began before the hook was enabled, when the thread belonged to no transaction. Scopes
    // above it are left over from an exception that crossed native code, which calls no hook.
    const index = scopes.findLastIndex((scope) => scope.asyncId === asyncId);
    const scope = scopes[index];
    scopes.length = Math.max(index, 0);
    if (scope?.kind === 'sweep') return;
    const outside = findOpenOwner(scope?.outside);
    if (scope?.kind === 'promise' && index === 0 && seesAll) giveBackLater(outside);
    else show(outside);
  }

  /**
   * Promise jobs come in sequences, each job with its own hooks: the thread is given back after the last job, and not
   * between two jobs of the same transaction. Giving it back is a job as well: Node leaves JavaScript when no job is
   * left.
   */
  function giveBackLater(owner: MarkedTransaction | undefined): void {
    if (sweep || running === owner) return;
    sweepsTo = owner;
    scheduleSweep();
  }

  /**
   * Runs in a context of its own, which belongs to no transaction of a second copy of the package: otherwise, the two
   * copies would schedule sweeps forever.
   */
  function scheduleSweep(): void {
    const count = ownedCount;
    sweep = runAside(nowhere, () =>
      Promise.resolve().then(() => {
        if (ownedCount !== count) return scheduleSweep();
        sweep = undefined;
        show(findOpenOwner(sweepsTo));
      }),
    );
  }

  function enable(): void {
    hook.enable();
    seesAll = false;
    void runAside(nowhere, () =>
      Promise.resolve().then(() => {
        seesAll = true;
      }),
    );
  }

  function open(line: string): Transaction {
    const around = current();
    // In a chain of transactions, each begun in the previous one, only open ones are kept.
    if (around) around.around = findOpenOwner(around.around);
    const owner: MarkedTransaction = {
      line,
      around,
      open: true,
      run(fn) {
        try {
          return storage.run(owner, () => {
            show(findOpenOwner(owner));
            return fn();
          });
        } finally {
          show(current());
        }
      },
      close() {
        if (!owner.open) return;
        owner.open = false;
        if (--openCount > 0) return;
        // This must not run in a hook: there Node (24) forgets to remove its own hook from the promises.
        hook.disable();
        scopes.length = 0;
        show(undefined);
      },
    };
    if (openCount++ === 0) enable();
    return owner;
  }

  return { open };
}

function findOpenOwner(owner: MarkedTransaction | undefined): MarkedTransaction | undefined {
  let each = owner;
  while (each && !each.open) each = each.around;
  return each;
}

/** Runs `fn` in a transaction that ends when it returns, or when the promise that it returns settles. */
export function carryOut({ run, close }: Transaction, fn: () => unknown): unknown {
  let outcome: unknown;
  try {
    outcome = run(() => adoptThenable(fn()));
  } catch (error) {
    close();
    throw error;
  }
  if (outcome instanceof Promise) return closeBehind(outcome, close);
  close();
  return outcome;
}

/** Some thenables start to work when then() is called, which must happen inside the transaction. */
function adoptThenable(given: unknown): unknown {
  const thenable = given !== null && typeof given === 'object' && 'then' in given && typeof given.then === 'function';
  return thenable ? Promise.resolve(given) : given;
}

async function closeBehind<T>(promise: Promise<T>, close: () => void): Promise<T> {
  try {
    return await promise;
  } finally {
    close();
  }
}
