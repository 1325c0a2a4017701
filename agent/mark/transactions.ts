/**
 * Tracks which transaction the thread works for, and reports every change to the kernel.
 *
 *                    callback of A        callback of none
 *   hook             before    after      before       after
 *   marker written   A         end        -            -
 *
 * AsyncLocalStorage stores which transaction a callback belongs to, also for continuations of `await`, but does not
 * report changes. So a hook runs before and after every callback. After a callback, the hook restores the previous
 * transaction: libuv itself also writes, for instance the rest of a response, and such a write belongs to no
 * transaction.
 */
import { AsyncLocalStorage, AsyncResource, createHook, executionAsyncResource } from 'node:async_hooks';
import type { MarkerOutput } from './marker_output.ts';

const END = 'KREPLAY1 end\n';

export interface Transaction {
  /** Runs `fn` in the transaction, and also the callbacks that `fn` starts. */
  run<T>(fn: () => T): T;
  /** Ends the transaction. Callbacks of its work that run later belong to the enclosing transaction. */
  close(): void;
}

export interface Transactions {
  /** Opens a transaction. `line` is its marker line, LF included. */
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

/** Creates the tracker of a thread. A thread needs exactly one tracker, because the thread has one label. */
export function createTransactions(write: MarkerOutput): Transactions {
  const storage = new AsyncLocalStorage<MarkedTransaction>();
  const hook = createHook({ before: makeHarmless(enter), after: makeHarmless(leave) });
  /** Callbacks that are running, the outermost first. */
  const scopes: AsyncScope[] = [];
  let openCount = 0;
  let running: MarkedTransaction | undefined;
  /** The marker line in effect; undefined if a marker could not be written. */
  let shown: string | undefined = END;
  let looking = false;
  /** Promise job that restores the transaction `sweepsTo`. */
  let sweep: Promise<void> | undefined;
  let sweepsTo: MarkedTransaction | undefined;
  /** Number of scopes so far whose transaction was not `sweepsTo`. */
  let ownedCount = 0;
  /** Whether all callbacks that are running began after the hook was enabled, so that `scopes` has all of them. */
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
   * Runs `fn` in the context of a resource, and ignores the hook calls that this causes. In a hook of an AsyncResource,
   * the context is not yet set, because runInAsyncScope() calls the hooks first.
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
    // A scope that is not found began before the hook was enabled, when the thread had no transaction. Scopes above the
    // found scope are left over from an exception that crossed native code, where no hook is called.
    const index = scopes.findLastIndex((scope) => scope.asyncId === asyncId);
    const scope = scopes[index];
    scopes.length = Math.max(index, 0);
    if (scope?.kind === 'sweep') return;
    const outside = findOpenOwner(scope?.outside);
    if (scope?.kind === 'promise' && index === 0 && seesAll) giveBackLater(outside);
    else show(outside);
  }

  /**
   * Restores the transaction `owner` after the last of a sequence of promise jobs. Each job has its own hooks, but
   * between two jobs of the same transaction nothing is restored. A promise job does the restoring, because Node leaves
   * JavaScript when no job is left.
   */
  function giveBackLater(owner: MarkedTransaction | undefined): void {
    if (sweep || running === owner) return;
    sweepsTo = owner;
    scheduleSweep();
  }

  /**
   * Schedules the sweep outside the transactions of a second copy of this package. Otherwise, the two copies would
   * schedule sweeps forever.
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
    // Removes closed transactions from the chain of enclosing transactions.
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
        // Must not run in a hook: Node 24 would forget to remove its own hook from the promises.
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

/** Runs `fn` in a transaction that ends when `fn` returns, or when the promise that `fn` returns settles. */
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

/**
 * Converts a thenable to a promise. Some thenables start to work when then() is called, which must happen inside the
 * transaction.
 */
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
