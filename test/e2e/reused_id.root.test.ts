/** Tests on the kernel that lists say when an id was used again, and not when one use of it waited for long. */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { endAll, kreplay, start, temporaryFolder } from './kreplay.ts';

const folder = temporaryFolder();
const data = join(folder.path, 'data');
const recording = join(data, 'recording.kreplay');

afterAll(() => {
  endAll();
  folder.remove();
});

const WRITE = 'dd if=/dev/zero of=written bs=4k count=3 conv=fsync 2> log';
/** One write to a pipe that nobody reads for some seconds: it has room for 64 KiB. */
const WAIT_IN_A_WRITE =
  'mkfifo p; (exec 3< p; sleep 2.6; cat <&3 > /dev/null) & dd if=/dev/zero of=p bs=1M count=1 2> log; wait; rm p';

const SCRIPTS = {
  again: `${WRITE}; sleep 2.2; ${WRITE}`,
  filled: `${WRITE}; ${WAIT_IN_A_WRITE}; ${WRITE}`,
  // It waits without a call, but for less time than its calls take.
  waits: `${WRITE}; ${WAIT_IN_A_WRITE}; sleep 1.4; ${WRITE}`,
  short: WRITE,
};

interface Listed {
  transaction_id: string;
  burst_count: number;
  bursts_apart_ns: number;
}

test('an id that was used again has two bursts; a slow call and a wait between calls make none', async () => {
  const agent = start(['agent', '--data', data, '--only-labelled']);
  await agent.says('recording to');
  for (const [id, script] of Object.entries(SCRIPTS)) {
    const labelled = `echo "KREPLAY1 txn=${id}" > /dev/null; ${script}; echo "KREPLAY1 end" > /dev/null`;
    expect(spawnSync('sh', ['-c', labelled], { cwd: folder.path }).status).toBe(0);
  }
  agent.process.kill('SIGINT');
  expect((await agent.ended).status).toBe(0);

  const listed = kreplay(['transactions', '--recording', recording, '--output', 'ndjson']).stdout;
  const found = listed
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Listed);
  expect(Object.fromEntries(found.map(({ transaction_id, burst_count }) => [transaction_id, burst_count]))).toEqual({
    ...{ again: 2, filled: 1, waits: 1, short: 1 },
  });
  const apartNs = found.find(({ transaction_id }) => transaction_id === 'again')!.bursts_apart_ns;
  expect(apartNs).toBeGreaterThan(2_000_000_000);
  expect(apartNs).toBeLessThan(4_000_000_000);

  const table = kreplay(['transactions', '--recording', recording, '--output', 'table']).stdout;
  const [heading, ...rows] = table.trim().split('\n');
  expect(heading).toMatch(/ ID USED AGAIN\?$/);
  expect(rows.find((row) => row.includes('  again  '))).toMatch(/2 bursts of calls, 2\.\d+ s apart$/);
  expect(rows.filter((row) => row.includes('bursts'))).toHaveLength(1);
});
