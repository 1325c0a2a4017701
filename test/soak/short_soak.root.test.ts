// The shortest form of `make soak`: each way to lose events happens once, and every event is accounted for.
import { SHORT, soak } from './soak.ts';

test('the loss of an agent and a daemon under load, kills, full disks and stalls is reported to the last event', async () => {
  const seed = Math.floor(Math.random() * 2 ** 32);
  const ending = new AbortController();
  const report = await soak({ pace: SHORT, seconds: 10, seed, onProgress: () => {}, signal: ending.signal });
  const { made, recorded, counted, uncounted, untold } = report.account;
  const causes = Object.keys(report.account.byCause);
  expect({ seed, sum: recorded + counted + uncounted, untold }).toEqual({ seed, sum: made, untold: 0 });
  expect([report.duplicates, report.failures]).toEqual([0, []]);
  // A loss that does not happen proves nothing.
  expect(causes).toEqual(expect.arrayContaining(['agent_killed', 'shed']));
  expect(Math.min(recorded, counted, uncounted)).toBeGreaterThan(100);
  const seen = new Set(report.incidents.map(({ incident }) => incident));
  expect([...seen].sort()).toEqual(SHORT.kinds.toSorted());
});
