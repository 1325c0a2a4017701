/** Tests whose losses the counts of processes make: none is given to a process that it may not be of. */
import { createProcessLosses } from '../../../agent/capture/process_losses.ts';

const [TYPE, OTHER] = [64, 67];
const PROCESSES = new Map([
  [256, { id: 256, service: 'noisy', share: 1000 }],
  [512, { id: 512, service: 'root-service', share: 2 ** 50 + 7 }],
  [768, { id: 768, service: 'in-a-container', share: 2 ** 45 + 1 }],
  [1024, { id: 1024, service: 'trusted', share: 998 }],
  [1280, { id: 1280, service: 'other', share: 1000 }],
]);
const UNKNOWN = { id: 0, service: 'unknown', share: 0 };

/** The map of the kernel side, of which the test sets the counts. */
function counted() {
  const counts = new Map<string, bigint>();
  const keyOf = (id: number, type: number) => new Uint8Array(new BigUint64Array([BigInt(id), BigInt(type)]).buffer);
  const nameOf = (key: Uint8Array) => new BigUint64Array(key.slice().buffer).join(' ');
  const map = {
    *keys() {
      for (const name of counts.keys()) {
        const [id, type] = name.split(' ').map(Number);
        yield keyOf(id!, type!);
      }
    },
    get(key: Uint8Array, into: Uint8Array) {
      const count = counts.get(nameOf(key));
      if (count === undefined) return undefined;
      into.set(new Uint8Array(new BigUint64Array([count]).buffer));
      return into;
    },
  };
  const processes = { get: (id: number) => (PROCESSES.get(id) ?? UNKNOWN) as never };
  const losses = createProcessLosses(map as never, processes, (uid) => uid === 0 || uid === 998);
  return {
    counts,
    take: (...pairs: [number, number][]) =>
      Object.fromEntries([...losses.take(new Map(pairs))].map(([type, lost]) => [type, Object.fromEntries(lost)])),
  };
}

test('what a process of a user lost is of its service; what trusted or unknown ones lost may be of any', () => {
  const { counts, take } = counted();
  for (const id of [256, 512, 768, 1024, 1280, 4096]) counts.set(`${id} ${TYPE}`, 10n);
  expect(take([TYPE, 60])).toEqual({ [TYPE]: { noisy: 10, other: 10, undefined: 40 } });
});

test('only what is new counts, by type, and nothing is read when nothing is lost', () => {
  const { counts, take } = counted();
  counts.set(`256 ${TYPE}`, 10n).set(`256 ${OTHER}`, 3n);
  expect(take([TYPE, 10], [OTHER, 3])).toEqual({ [TYPE]: { noisy: 10 }, [OTHER]: { noisy: 3 } });
  counts.set(`256 ${TYPE}`, 15n);
  expect(take()).toEqual({});
  expect(take([TYPE, 5])).toEqual({ [TYPE]: { noisy: 5 } });
});

test('what was counted of no process may be of any', () => {
  const { counts, take } = counted();
  counts.set(`256 ${TYPE}`, 10n);
  expect(take([TYPE, 12])).toEqual({ [TYPE]: { noisy: 10, undefined: 2 } });
  // The process made room and has come again.
  counts.set(`256 ${TYPE}`, 4n);
  expect(take([TYPE, 9])).toEqual({ [TYPE]: { noisy: 4, undefined: 5 } });
});

test('what is read of processes before it is read of all is in the next count', () => {
  const { counts, take } = counted();
  counts.set(`256 ${TYPE}`, 10n);
  expect(take([TYPE, 7])).toEqual({ [TYPE]: { noisy: 10 } });
  expect(take([TYPE, 3])).toEqual({ [TYPE]: {} });
  counts.set(`256 ${TYPE}`, 11n);
  expect(take([TYPE, 2])).toEqual({ [TYPE]: { noisy: 1, undefined: 1 } });
});
