// Kills an agent at random instants under load: what could be queried before stays, and what is missing is reported.
// REPEATS=10 kills it more often and prints the result.
import { setTimeout as sleep } from 'node:timers/promises';
import { times } from '../repeats.ts';
import { isTold, missingNumbers, recordedNumbers, startNumberedWrites } from './numbered_writes.ts';
import { wallClockNs } from './programs.ts';
import { type Agent, removeFolders, startAgent, temporaryFolder } from './recorded_run.ts';

const KILLS = times(4);
const RUN_MS = 600;
const WRITES_PER_MS = 3;
/** An event can be queried within 250 ms of its end; the machine may be busy with other tests. */
const UNWRITTEN_MS_MAX = 1000;

const dataFolder = temporaryFolder();
const agents: Agent[] = [];
afterAll(() => {
  for (const { process } of agents) process.kill('SIGKILL');
  removeFolders();
});

async function newAgent(): Promise<Agent> {
  const agent = await startAgent(dataFolder);
  agents.push(agent);
  return agent;
}

test('a killed agent leaves everything that could be queried, and the loss is reported', async () => {
  let agent = await newAgent();
  const load = startNumberedWrites(dataFolder, WRITES_PER_MS);
  const starts = [wallClockNs()];
  const kills: bigint[] = [];
  const seen = new Set<number>();
  for (let roundNs = wallClockNs(); kills.length < KILLS; roundNs = kills.at(-1)!) {
    await sleep(Math.random() * RUN_MS);
    const before = recordedNumbers(load, dataFolder, roundNs).numbers;
    for (const number of before) seen.add(number);
    kills.push(wallClockNs());
    agent.process.kill('SIGKILL');
    await expect(agent.stop()).rejects.toThrow();
    const after = new Set(recordedNumbers(load, dataFolder, roundNs).numbers);
    expect(before.filter((number) => !after.has(number))).toEqual([]);
    agent = await newAgent();
    starts.push(wallClockNs());
  }
  const began = await load.stop();
  await agent.stop();

  const { numbers, losses } = recordedNumbers(load, dataFolder);
  expect(new Set(numbers).size).toBe(numbers.length);
  const missing = missingNumbers(began, numbers);
  expect(missing.filter((number) => seen.has(number))).toEqual([]);
  expect(losses.filter(({ cause }) => cause === 'agent_killed')).toHaveLength(KILLS);
  const unwritten_ms = kills.map((killNs, i) => unwrittenMs(missing, began, starts[i]!, killNs));
  const sums = {
    kills: KILLS,
    writes: began.length,
    missing: missing.length,
    untold: missing.filter((number) => !isTold(losses, began, number)).length,
    unwritten_ms_median: unwritten_ms.toSorted((a, b) => a - b)[KILLS >> 1],
    unwritten_ms_max: Math.max(...unwritten_ms),
  };
  if (process.env.REPEATS) process.stderr.write(`${JSON.stringify(sums)}\n`);
  expect(sums.untold).toBe(0);
  expect(sums.unwritten_ms_max).toBeLessThan(UNWRITTEN_MS_MAX);
}, 3_600_000);

/** How long before the kill the first of the lost writes began; the agent has been recording since `startNs`. */
function unwrittenMs(missing: readonly number[], began: readonly bigint[], startNs: bigint, killNs: bigint): number {
  const firstNs = missing.map((number) => began[number - 1]!).find((ns) => ns >= startNs);
  return firstNs === undefined || firstNs > killNs ? 0 : Number(killNs - firstNs) / 1e6;
}
