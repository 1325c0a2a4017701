/** The time of a request is no earlier than what was recorded before it. */
import { readClocks } from 'libbpf-ts/kernel';
import { nowNs } from '../../../daemon/base/wall_clock.ts';

test('nothing that the kernel has stamped before is later, and the next millisecond is the latest', () => {
  const clocks = new BigInt64Array(4);
  for (let i = 0; i < 5000; i++) {
    readClocks(clocks);
    const stampNs = clocks[0]!;
    expect(nowNs() >= stampNs).toBe(true);
  }
  readClocks(clocks);
  const untilNs = nowNs();
  readClocks(clocks);
  expect(untilNs <= clocks[0]! + 1_000_000n).toBe(true);
});
