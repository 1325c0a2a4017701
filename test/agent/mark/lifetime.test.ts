/** Tests the cost of markers, when they begin and when they end. */
import { AsyncResource, executionAsyncId } from 'node:async_hooks';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { carryOut, createTransactions, type Transaction } from '../../../agent/mark/transactions.ts';
import { createWitness, type Witness } from './witness.ts';

let witness: Witness;

beforeEach(() => {
  witness = createWitness();
});

test('an unchanged marker is not written twice', async () => {
  await witness.within('a', async () => {
    expect(witness.lines).toEqual(['KREPLAY1 txn=a\n']);
    const again = witness.transactions.open('KREPLAY1 txn=a\n');
    again.run(() => {});
    again.close();
    new AsyncResource('TEST').runInAsyncScope(() => {});
    expect(witness.lines).toHaveLength(1);
  });
  const { length } = witness.lines;
  for (let i = 0; i < 10; i++) await sleep(0);
  expect(witness.lines).toHaveLength(length);
});

test('consecutive jobs of one promise cause one change, even if other transactions have jobs in between', async () => {
  const row = async () => {
    for (let i = 0; i < 20; i++) await null;
  };
  await witness.within('a', async () => {
    await sleep(1);
    const { length } = witness.lines;
    await row();
    expect(witness.lines).toHaveLength(length);
  });
  const { length } = witness.lines;
  await row();
  expect(witness.lines).toHaveLength(length);
  // The jobs take turns, so each is a change, and there are no further changes.
  await Promise.all([witness.within('a', row), witness.within('b', row), row()]);
  expect(witness.lines.length - length).toBeLessThanOrEqual(2 * 2 + 3 * 20 + 2);
});

test('the thread is released before Node runs other code, such as code without hooks, and after exceptions', () => {
  const script = `
    import { createTransactions } from ${JSON.stringify(join(import.meta.dirname, '../../../agent/mark/transactions.ts'))};
    import { setTimeout as sleep } from 'node:timers/promises';
    const lines = [];
    const { run, close } = createTransactions((line) => lines.push(line.trim()) > 0).open('a\\n');
    const looks = [];
    const look = (where) => looks.push([where, lines.at(-1)]);
    process.on('unhandledRejection', () => look('unhandled rejection'));
    process.on('uncaughtException', () => look('uncaught exception'));
    process.on('beforeExit', () => look('before the exit'));
    process.on('exit', () => console.log(JSON.stringify(looks)));
    const others = new Set();
    const other = setInterval(() => others.add(lines.at(-1)), 1);
    // Its job is the last one for now.
    void run(async () => { await sleep(1); look('inside'); throw new Error('expected'); });
    await sleep(10);
    for (const later of [process.nextTick, setImmediate, setTimeout, queueMicrotask]) {
      await run(async () => {
        later(() => { look(later.name); throw new Error('expected'); });
        await sleep(5);
        look('behind it');
      });
    }
    clearInterval(other);
    looks.push(...others);
    void run(async () => { await sleep(1); look('last'); });`;
  const output = execFileSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' });
  const [inside, end] = ['a', 'KREPLAY1 end'];
  expect(JSON.parse(output)).toEqual([
    ['inside', inside],
    ['unhandled rejection', end],
    ...['nextTick', 'setImmediate', 'setTimeout', 'queueMicrotask'].flatMap((name) => [
      [name, inside],
      // A microtask is over before its exception is seen.
      ['uncaught exception', name === 'queueMicrotask' ? end : inside],
      ['behind it', inside],
    ]),
    end,
    ['last', inside],
    ['before the exit', end],
  ]);
});

test('two independent copies of the package both let the program end', async () => {
  // Two copies of the package behave like this; if each kept rescheduling because of the other, no timer would ever
  // fire.
  const { transactions } = witness;
  const other = createTransactions(() => true);
  for (const [first, second] of [
    [transactions, other],
    [other, transactions],
  ] as const) {
    const [a, b] = [first.open('KREPLAY1 txn=a\n'), second.open('KREPLAY1 txn=b\n')];
    await a.run(() => b.run(async () => sleep(1)));
    await b.run(() => a.run(async () => sleep(1)));
    a.close();
    b.close();
  }
});

test('without an open transaction no hook is installed', async () => {
  // A promise has an id only if a hook is active.
  const hooked = async () => {
    await sleep(1);
    return executionAsyncId() !== 0;
  };
  expect(await hooked()).toBe(false);
  const held = witness.transactions.open('KREPLAY1 txn=a\n');
  expect(await hooked()).toBe(true);
  await witness.within('b', hooked);
  expect(await hooked()).toBe(true);
  held.close();
  held.close();
  await sleep(1);
  expect(await hooked()).toBe(false);
  await witness.within('c', async () => {
    await sleep(1);
    witness.check('c', 'in the next one');
  });
  expect(witness.wrong).toEqual([]);
});

test('a chain of transactions that each start the next one keeps none of them in memory', async () => {
  const collected = new Set<number>();
  const registry = new FinalizationRegistry<number>((number) => collected.add(number));
  const CHAIN = 2000;
  let last: Transaction | undefined;
  await new Promise<void>((done) => {
    const next = (number: number): void => {
      if (number === CHAIN) done();
      if (number >= CHAIN) return;
      const transaction = witness.transactions.open(`KREPLAY1 txn=${number}\n`);
      registry.register(transaction, number);
      last = transaction;
      transaction.run(() => {
        setImmediate(() => next(number + 1));
        setImmediate(transaction.close);
      });
    };
    next(0);
  });
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  for (let i = 0; i < 20 && collected.size < CHAIN / 2; i++) {
    collect();
    await sleep(5);
  }
  expect(collected.size).toBeGreaterThan(CHAIN / 2);
  last!.close();
});

test('a marker whose write failed is written at the next opportunity', () => {
  let works = false;
  witness = createWitness(() => works);
  const { run, close } = witness.transactions.open('KREPLAY1 txn=a\n');
  run(() => {
    expect(witness.lines).toEqual([]);
    works = true;
    new AsyncResource('TEST').runInAsyncScope(() => witness.check('a', 'in a scope'));
    works = false;
  });
  witness.check('a', 'behind an end that could not be written');
  works = true;
  close();
  witness.check(null, 'when it could be');
  expect(witness.wrong).toEqual([]);
});

test.each([
  ['returns', () => {}],
  ['returns a promise that is fulfilled', async () => sleep(1)],
  ['returns a promise that is rejected', async () => Promise.reject(new Error('expected'))],
  [
    'throws',
    () => {
      throw new Error('expected');
    },
  ],
])('a transaction ends when its function %s', async (_, fn: () => unknown) => {
  let scope = new AsyncResource('TEST');
  const owner = () => scope.runInAsyncScope(witness.told);
  const begin = () => {
    scope = new AsyncResource('TEST');
    expect(owner()).toBe('a');
    return fn();
  };
  await witness.within('other', async () => {
    await (async () => carryOut(witness.transactions.open('KREPLAY1 txn=a\n'), begin))().catch(() => {});
    expect(owner()).toBe('other');
  });
});

test('code that runs in a closed transaction belongs to no transaction', async () => {
  await witness.within('other', async () => {
    const { run, close } = witness.transactions.open('KREPLAY1 txn=a\n');
    const { run: runInner, close: closeInner } = run(() => witness.transactions.open('KREPLAY1 txn=b\n'));
    closeInner();
    run(() => {
      runInner(() => witness.check('a', 'inside of an open one'));
      witness.check('a', 'behind it');
    });
    close();
    await witness.within('c', async () =>
      runInner(() => witness.check('other', 'inside of the next one that is open')),
    );
    witness.check('other', 'behind all');
  });
  const { run, close } = witness.transactions.open('KREPLAY1 txn=a\n');
  close();
  run(() => witness.check(null, 'inside'));
  expect(witness.wrong).toEqual([]);
  expect(witness.rightCount).toBe(5);
});
