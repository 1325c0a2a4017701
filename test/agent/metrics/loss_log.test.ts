/** Tests the log of losses, with cause and cure: at once, then once a minute, and none is left out. */
import { createLossLog, LOSSES_EVERY_MS } from '../../../agent/metrics/loss_log.ts';

test('a loss is logged immediately, and a continuing one once a minute', () => {
  const lines: [cause: string, events: number][] = [];
  let nowMs = 5;
  const log = createLossLog(
    { warn: (({ cause, events }: { cause: string; events: number }) => lines.push([cause, events])) as never },
    () => nowMs,
  );
  log.noteLosses([]);
  log.noteLosses([{ cause: 'ring_full', count: 2 }]);
  expect(lines.splice(0)).toEqual([['ring_full', 2]]);
  for (let second = 1; second < 60; second++) {
    nowMs += 1000;
    log.noteLosses([
      { cause: 'ring_full', count: 1 },
      { cause: 'store_failed', count: second === 7 ? 3 : 0 },
    ]);
  }
  expect(lines).toEqual([]);
  nowMs += LOSSES_EVERY_MS - 59_000;
  log.noteLosses([]);
  expect(lines.splice(0)).toEqual([
    ['ring_full', 59],
    ['store_failed', 3],
  ]);
  log.noteLosses([{ cause: 'no_memory', count: 4 }]);
  log.close();
  log.close();
  expect(lines).toEqual([['no_memory', 4]]);
});

test('the text counts in words that agree with the number', () => {
  const texts: string[] = [];
  const log = createLossLog({ warn: (_fields, text) => texts.push(text) }, () => 0);
  log.noteLosses([
    { cause: 'end_missed', count: 1 },
    { cause: 'ring_full', count: 2 },
  ]);
  expect(texts).toEqual([expect.stringMatching(/^1 event lost: /), expect.stringMatching(/^2 events lost: /)]);
});
