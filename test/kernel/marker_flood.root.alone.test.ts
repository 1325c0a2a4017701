/**
 * Tests a user who writes more markers than fit: the owners that are lost are his, and the answers about others say so.
 * It runs alone: programs and files that any process uses for the first time meanwhile share the ring with the markers.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync } from 'node:fs';
import { join } from 'node:path';
import { serve } from '../daemon/served.ts';
import { AS_NOBODY } from '../unprivileged.ts';
import { bash } from './programs.ts';
import { newRecorder, removeFolders, temporaryFolder } from './recorded_run.ts';

const MARKERS = 200_000;
const VICTIM_WRITES = 40;
const TEST_MS = 120_000;

const recorder = newRecorder(['--ring-size', '64']);
const folder = temporaryFolder();
chmodSync(folder, 0o777);
afterAll(async () => {
  await recorder.stop();
  removeFolders();
});

/** Each marker is for another transaction; a child that inherits the last one writes under another name. */
const FLOOD = `
import os, subprocess
null = os.open("/dev/null", os.O_WRONLY)
file = os.open("${folder}/flood", os.O_CREAT | os.O_WRONLY)
for i in range(${MARKERS}):
    os.write(null, b"KREPLAY1 txn=flood-%d-" % i + b"x" * 900)
    if i % 100 == 0: os.write(file, b"x")
`;

const VICTIM = `export OTEL_SERVICE_NAME=bank
exec /bin/bash -c 'for i in $(seq ${VICTIM_WRITES}); do
  echo "KREPLAY1 txn=victim-$i" >/dev/null; echo x >>${folder}/victim; sleep 0.05
done'`;

function flood(): ChildProcess {
  const [command, ...args] = AS_NOBODY;
  return spawn(command, [...args, 'env', 'OTEL_SERVICE_NAME=noisy', 'python3', '-c', FLOOD], { stdio: 'inherit' });
}

interface Gap {
  cause: string;
  service?: string;
  lost: number;
}

test(
  'markers of one user that are lost make the answers about him incomplete, and no others',
  async () => {
    const recorded = await recorder.record(async () => {
      const flooding = flood();
      const ended = once(flooding, 'close');
      bash(VICTIM);
      expect(await ended).toEqual([0, null]);
    });
    const flooded = recorded.losses().filter(({ cause }) => cause === 'marker_flood');
    expect(new Set(flooded.map(({ service }) => service))).toEqual(new Set(['noisy']));
    const served = await serve(recorded.dataFolder);
    const coverageOf = async (path: string) => {
      const { coverage } = (await served.get(`${path}${path.includes('?') ? '&' : '?'}coverage=full`)).json;
      // A busy kernel may have skipped the program at the end of some call.
      const gaps = (coverage.gaps as Gap[]).filter(({ cause }) => cause !== 'end_missed');
      const complete = coverage.complete || (gaps.length === 0 && coverage.gaps.length > 0);
      const lost = gaps.reduce((sum, gap) => sum + gap.lost, 0);
      const causes = [...new Set(gaps.map(({ cause, service }) => `${cause} ${service}`))].sort();
      return { complete, lost, gaps: causes, others: (coverage.others ?? []) as Gap[] };
    };
    const window = `from=${recorded.events()[0]!.timestamp_ns}`;
    const victims = [
      `/api/events?service=bank&${window}`,
      `/api/stats?service=bank&${window}`,
      `/api/events?exclude_service=noisy&${window}`,
      ...[1, VICTIM_WRITES / 2, VICTIM_WRITES].map((i) => `/api/transactions/victim-${i}`),
      `/api/transactions/victim-1/summary`,
      `/api/events?transaction_id=victim-2`,
    ];
    for (const path of victims)
      expect([path, await coverageOf(path)]).toMatchObject([path, { complete: true, gaps: [], lost: 0 }]);
    const all = await coverageOf(`/api/events?${window}`);
    const his = await coverageOf(`/api/events?service=noisy&${window}`);
    expect([all.complete, his.complete]).toEqual([false, false]);
    for (const { gaps } of [all, his]) expect(gaps).toContain('marker_flood noisy');
    const lost = flooded.reduce((sum, loss) => sum + loss.lost, 0);
    expect(lost).toBeGreaterThan(MARKERS / 10);
    expect(his.lost).toBeGreaterThanOrEqual(lost);
    expect((await coverageOf(victims[0]!)).others.length).toBeGreaterThan(0);
    // The victim lost nothing.
    const own = recorded.writes().filter(({ file }) => file === join(folder, 'victim'));
    expect(own.filter(({ transaction_id }) => transaction_id?.startsWith('victim-'))).toHaveLength(VICTIM_WRITES);
    await served.close();
  },
  TEST_MS,
);
