/**
 * What becomes of names when more is defined than the agent reads: who defines too much loses its own names, each of them
 * counted, and nobody else does.
 */
import { mkdirSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { findCgroups } from '../../agent/attribution/cgroups.ts';
import { bash } from './programs.ts';
import { readRecording, removeFolders, startAgent, temporaryFolder } from './recorded_run.ts';

const { root } = findCgroups();
const cgroups = ['flood', 'quiet'].map((name) => join(root, `kreplay-${name}-${process.pid}`));
const [flood, quiet] = cgroups as [string, string];

beforeAll(() => {
  for (const cgroup of cgroups) mkdirSync(cgroup);
});
afterAll(() => {
  for (const cgroup of cgroups) rmdirSync(cgroup);
  removeFolders();
});

const inCgroup = (cgroup: string, command: string, folder: string) =>
  bash(`echo $$ > ${cgroup}/cgroup.procs; cd ${folder}; ${command}`);

/** Definitions of these files take some megabytes: their share is used up several times. */
const FILES = 20_000;
/** A write of each size tells when it was made. */
const [IN_TIME, REFUSED, LATER] = [2n, 3n, 5n];
const FLOOD = `
import os
for i in range(${FILES}):
    file = os.open("f%d" % i + "x" * 200, os.O_WRONLY | os.O_CREAT)
    os.write(file, b"x" * ${REFUSED})
    os.close(file)`;

test('a cgroup that defines more than the agent reads costs no other one its names, and each lost name is counted', async () => {
  const folder = temporaryFolder();
  const dataFolder = temporaryFolder();
  const agent = await startAgent(dataFolder, ['--ring-size', '64']);
  inCgroup(quiet, `printf %${IN_TIME}s > before`, folder);
  agent.process.kill('SIGSTOP');
  inCgroup(flood, `python3 -c '${FLOOD}'; ls | xargs rm`, folder);
  inCgroup(quiet, `OTEL_SERVICE_NAME=quiet-shop /usr/bin/printf %${IN_TIME}s > meanwhile`, folder);
  agent.process.kill('SIGCONT');
  // The agent has read everything, and the time for which a refusal is remembered is over.
  await sleep(1000);
  inCgroup(flood, `printf %${LATER}s > later`, folder);
  await agent.stop();

  const recorded = readRecording(dataFolder);
  const writes = recorded.writes();
  const quietly = writes.find(({ file }) => file === join(folder, 'meanwhile'));
  expect([quietly?.service_name, quietly?.result]).toEqual(['quiet-shop', IN_TIME]);
  expect(writes.filter(({ file }) => file === join(folder, 'later'))).toHaveLength(1);
  const named = writes.find(({ file, result }) => file?.startsWith(`${folder}/f`) && result === REFUSED);
  const flooded = writes.filter(({ pid, result }) => pid === named?.pid && result === REFUSED);
  const nameless = flooded.filter(({ file }) => file === null).length;
  expect(flooded).toHaveLength(FILES);
  // Half of the ring at most, and at least a share of it, is theirs.
  expect(FILES - nameless).toBeGreaterThan(2000);
  expect(nameless).toBeGreaterThan(FILES / 3);
  const lost = recorded.losses().filter(({ cause }) => cause === 'definition_lost');
  expect(lost.reduce((sum, loss) => sum + loss.lost, 0)).toBeGreaterThanOrEqual(nameless);
});
