// Events that the recorder could not keep are counted to the last one, and reported with every answer that lacks them.
import { spawnSync } from 'node:child_process';
import { isOthersLoss } from './missed_ends.ts';
import { readRecording, removeFolders, startAgent, temporaryFolder } from './recorded_run.ts';

afterAll(removeFolders);

const WRITES = 49_999;

/**
 * dd writes this often to its output; the few lines that it prints go elsewhere. Returns its process id: others of this
 * machine may run dd, too.
 */
function writeMany(): number {
  const { pid, status } = spawnSync('dd', ['if=/dev/zero', 'of=/dev/null', 'bs=1', `count=${WRITES}`, 'status=none']);
  expect(status).toBe(0);
  return pid;
}

test('a ring that fills up loses events and counts each of them', async () => {
  const dataFolder = temporaryFolder();
  const agent = await startAgent(dataFolder, ['--ring-size', '1']);
  let log = '';
  agent.process.stderr!.on('data', (text: string) => {
    log += text;
  });
  // A stopped agent drains nothing: 1 MiB holds some 10 000 events.
  agent.process.kill('SIGSTOP');
  const pid = writeMany();
  agent.process.kill('SIGCONT');
  await agent.stop();
  const { writes, losses } = readRecording(dataFolder);
  const own = writes({ pid }).filter(({ file }) => file === '/dev/null');
  const lost = losses().filter(({ cause }) => cause === 'shed');
  const lostCount = lost.reduce((sum, loss) => sum + loss.lost, 0);
  expect(own.length).toBeGreaterThan(1000);
  expect(lostCount).toBeGreaterThanOrEqual(WRITES - own.length);
  // Other processes on this machine write meanwhile; they may lose some too.
  expect(own.length + lostCount).toBeLessThan(WRITES * 1.2);
  for (const { fromNs, toNs } of lost) expect(fromNs).toBeLessThan(toNs);
  const said = log
    .split('\n')
    .filter((line) => line.includes('"cause":"shed"'))
    .map((line) => JSON.parse(line) as { level: number; events: number; msg: string });
  expect(said.reduce((sum, { events }) => sum + events, 0)).toBe(lostCount);
  // The first loss is logged at once, the rest at the end.
  expect(said.length).toBeLessThanOrEqual(2);
  expect(said[0]!.msg).toMatch(/^\d+ events lost: a ring filled up.*; give the agent a larger --ring-size/);
});

test('a ring of the default size loses no event, and a killed agent leaves everything that it had flushed', async () => {
  const dataFolder = temporaryFolder();
  const agent = await startAgent(dataFolder);
  const pid = writeMany();
  // An event that a query sees is flushed: that is 250 ms after its end at the latest.
  const recorded = readRecording(dataFolder);
  const deadline = performance.now() + 10_000;
  const count = () => recorded.writes({ pid }).filter(({ file }) => file === '/dev/null').length;
  while (count() < WRITES && performance.now() < deadline) await new Promise((resolve) => setTimeout(resolve, 100));
  agent.process.kill('SIGKILL');
  await expect(agent.stop()).rejects.toThrow();
  expect(count()).toBe(WRITES);
  expect(recorded.losses().filter((loss) => !isOthersLoss(loss))).toEqual([]);
  const next = await startAgent(dataFolder);
  await next.stop();
  expect(count()).toBe(WRITES);
});
