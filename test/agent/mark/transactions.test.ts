/**
 * Tests that the kernel always has the transaction whose code runs: after every way in which Node resumes a program,
 * with other transactions in between, and in code without a transaction.
 */
import { AsyncLocalStorage, AsyncResource } from 'node:async_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { runInNewContext } from 'node:vm';
import fc from 'fast-check';
import { CONTINUATIONS, SLOW_CONTINUATIONS } from './continuations.ts';
import { createWitness, type Witness } from './witness.ts';

let witness: Witness;

beforeEach(() => {
  witness = createWitness();
});

type Named = readonly [name: string, continuation: (back: () => void) => unknown];

/** Checks in the callback itself and after an await of it. */
async function walk(id: string | null, steps: readonly Named[]): Promise<void> {
  for (const [name, continuation] of steps) {
    await new Promise<void>((done) => {
      continuation(() => {
        witness.check(id, name);
        done();
      });
      witness.check(id, `behind the call of ${name}`);
    });
    witness.check(id, `await behind ${name}`);
  }
}

const QUICK = Object.entries(CONTINUATIONS);

describe.each([1, 2, 16])('%i at a time', (concurrency) => {
  const steps = concurrency === 16 ? QUICK : [...QUICK, ...Object.entries(SLOW_CONTINUATIONS)];

  test.each(steps)('%s', async (...step) => {
    const actors = Array.from({ length: concurrency }, (_, i) =>
      witness.within(`t${i}`, () => walk(`t${i}`, [step, step, step])),
    );
    await Promise.all([...actors, walk(null, [step, step])]);
    expect(witness.wrong).toEqual([]);
    expect(witness.rightCount).toBe(9 * concurrency + 6);
    witness.check(null, 'behind all of them');
    expect(witness.wrong).toEqual([]);
  });
});

interface Plan {
  steps: readonly Named[];
  inner: readonly Plan[];
  /** Whether the inner ones run concurrently. */
  together: boolean;
}

const plans = fc.letrec<{ plan: Plan }>((tie) => ({
  plan: fc.record({
    steps: fc.array(fc.constantFrom(...QUICK), { maxLength: 4 }),
    inner: fc.oneof({ maxDepth: 3 }, fc.constant([]), fc.array(tie('plan'), { maxLength: 3 })),
    together: fc.boolean(),
  }),
})).plan;

test('steps in any order, nested in any way, concurrently', async () => {
  let count = 0;
  const carryOut = async (id: string | null, { steps, inner, together }: Plan): Promise<void> => {
    const started: Promise<void>[] = [];
    for (const each of inner) {
      const name = `t${count++}`;
      const one = witness.within(name, () => carryOut(name, each));
      witness.check(id, 'behind the start of an inner one');
      if (together) started.push(one);
      else await one;
      witness.check(id, 'behind an inner one');
    }
    await walk(id, steps);
    await Promise.all(started);
    witness.check(id, 'at the end');
  };
  await fc.assert(
    fc.asyncProperty(fc.array(plans, { minLength: 1, maxLength: 8 }), async (inner) => {
      await carryOut(null, { steps: QUICK, inner, together: true });
      expect(witness.wrong).toEqual([]);
      expect(witness.told()).toBeNull();
    }),
    { numRuns: 50 },
  );
}, 120_000);

describe('a function that is called in a context other than its own', () => {
  const bindings: [string, (fn: () => void) => () => void][] = [
    ['AsyncResource.bind', (fn) => AsyncResource.bind(fn)],
    ['AsyncLocalStorage.bind', (fn) => AsyncLocalStorage.bind(fn)],
    [
      'AsyncLocalStorage.snapshot',
      (fn) => {
        const inContext = AsyncLocalStorage.snapshot();
        return () => inContext(fn);
      },
    ],
    [
      'job of a queue that is done inside of a callback',
      (fn) => {
        const inContext = AsyncLocalStorage.snapshot();
        const script = `const settled = Promise.resolve();
          settled.constructor = { [Symbol.species]: PromiseOutside };
          inContext(() => settled.then(() => fn()));`;
        return () => {
          const outside = { PromiseOutside: Promise, inContext, fn };
          runInNewContext(script, outside, { microtaskMode: 'afterEvaluate' });
        };
      },
    ],
    [
      'runInAsyncScope',
      (fn) => {
        const resource = new AsyncResource('TEST');
        return () => resource.runInAsyncScope(fn);
      },
    ],
  ];

  async function callFromEverywhere(bind: (fn: () => void) => () => void): Promise<void> {
    const own = [bind(() => witness.check(null, 'bound by nobody'))];
    const callAll = (id: string | null) => {
      for (const fn of own) {
        fn();
        witness.check(id, `behind a call from ${id}`);
      }
    };
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    const held = ['a', 'b'].map((id) =>
      witness.within(id, async () => {
        own.push(bind(() => witness.check(id, `bound in ${id}`)));
        await released;
      }),
    );
    // The callback began without a hook.
    callAll(null);
    await witness.within('c', async () => {
      callAll('c');
      await null;
      callAll('c');
      setImmediate(() => callAll('c'));
      await sleep(5);
      own[0]!();
    });
    setImmediate(() => callAll(null));
    await sleep(5);
    release();
    await Promise.all(held);
  }

  test.each(bindings)(
    "%s: it runs in its own context, and afterwards the caller's context is restored",
    async (_, bind) => {
      await callFromEverywhere(bind);
      await sleep(5);
      await callFromEverywhere(bind);
      expect(witness.wrong).toEqual([]);
      expect(witness.rightCount).toBe(2 * (5 * 6 + 1));
    },
  );
});

test('an exception restores the state of the thread', async () => {
  const outer = witness.transactions.open('KREPLAY1 txn=outer\n');
  const inner = witness.transactions.open('KREPLAY1 txn=inner\n');
  const fail = () => {
    witness.check('inner', 'in front of the exception');
    throw new Error('expected');
  };
  outer.run(() => {
    expect(() => inner.run(fail)).toThrow('expected');
    witness.check('outer', 'behind the exception');
    const resource = inner.run(() => new AsyncResource('TEST'));
    expect(() => resource.runInAsyncScope(fail)).toThrow('expected');
    witness.check('outer', 'behind the exception in a scope');
  });
  witness.check(null, 'outside');
  outer.close();
  inner.close();
  expect(witness.wrong).toEqual([]);
});

test('what outlives a transaction belongs to the enclosing one while that is open, and then to none', async () => {
  const looks: Promise<void>[] = [];
  const look = (expected: string | null, ms: number) =>
    looks.push(sleep(ms).then(() => witness.check(expected, `after ${ms} ms`)));
  await witness.within('outer', async () => {
    await witness.within('inner', async () => {
      look('outer', 10);
      look(null, 60);
    });
    await sleep(30);
  });
  await witness.within('other', () => Promise.all(looks));
  expect(witness.wrong).toEqual([]);
  expect(witness.rightCount).toBe(2);
});
