/** Tests the order of the chunks of long work on one thread. */
import { setImmediate as turn } from 'node:timers/promises';
import { begin, favour, noteConnection, yieldToEventLoop } from '../../../daemon/base/event_loop.ts';

/** Runs work of so many chunks each, all at once, and returns whose chunks came in which order. */
async function orderOf(works: Record<string, number>, small: readonly string[] = []): Promise<string> {
  const order: string[] = [];
  await Promise.all(
    Object.entries(works).map(async ([name, chunks]) => {
      const work = { name };
      if (small.includes(name)) favour(work, true);
      for (let i = 0; i < chunks; i++) {
        await yieldToEventLoop(work);
        order.push(name);
      }
    }),
  );
  return order.join('');
}

test('all work goes on in turn', async () => {
  expect([...(await orderOf({ a: 3, b: 3, c: 3 }))].sort().join('')).toBe('aaabbbccc');
});

test('work that began later catches up with work that has had many chunks', async () => {
  const order: string[] = [];
  const long = {};
  const longWork = (async () => {
    for (let i = 0; i < 200; i++) {
      await yieldToEventLoop(long);
      order.push('l');
    }
  })();
  while (order.length < 100) await turn();
  const begun = order.length;
  const late = {};
  for (let i = 0; i < 30; i++) {
    await yieldToEventLoop(late);
    order.push('s');
  }
  await longWork;
  const between = order.slice(begun, order.lastIndexOf('s'));
  // One turn in four goes to what has waited longest.
  expect(between.filter((one) => one === 'l').length).toBeLessThanOrEqual(between.length / 4 + 2);
});

test('small work comes before the first chunks of others, and not always', async () => {
  const order = await orderOf({ a: 40, b: 40, s: 40 }, ['s']);
  const whileSmall = order.slice(0, order.lastIndexOf('s') + 1);
  const others = whileSmall.length - 40;
  expect(others).toBeLessThanOrEqual(whileSmall.length / 4 + 3);
  expect(others).toBeGreaterThan(0);
});

test('what turns out not to be small waits as the others do', async () => {
  const work = {};
  favour(work, true);
  for (let i = 0; i < 10; i++) await yieldToEventLoop(work);
  favour(work, false);
  const order: string[] = [];
  const run = async (name: string, of: object) => {
    for (let i = 0; i < 20; i++) {
      await yieldToEventLoop(of);
      order.push(name);
    }
  };
  await Promise.all([run('a', work), run('b', {})]);
  expect(order.slice(0, 20).filter((name) => name === 'a').length).toBeLessThan(15);
});

test('work goes on, and begins, while connections keep coming', async () => {
  let isOver = false;
  const coming = (async () => {
    while (!isOver) {
      noteConnection();
      await turn();
    }
  })();
  const begun = new Promise<void>((resolve) => begin(resolve));
  for (let i = 0; i < 5; i++) await yieldToEventLoop({});
  await begun;
  isOver = true;
  await coming;
});

test('what begins does so in order, and the sockets are polled in between', async () => {
  const order: number[] = [];
  const until = (ms: number) => {
    const end = performance.now() + ms;
    while (performance.now() < end);
  };
  const turnsSeen = new Set<number>();
  let turnNumber = 0;
  const counting = setInterval(() => turnNumber++, 0);
  await new Promise<void>((resolve) => {
    for (let i = 0; i < 20; i++)
      begin(() => {
        until(3);
        turnsSeen.add(turnNumber);
        order.push(i);
        if (i === 19) resolve();
      });
  });
  clearInterval(counting);
  expect(order).toEqual([...Array(20).keys()]);
  expect(turnsSeen.size).toBeGreaterThan(10);
});
