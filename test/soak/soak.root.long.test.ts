// A minute of `make soak`: every kind of incident happens once or more, and every event is accounted for.
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { ROOT } from '../kernel/programs.ts';
import { INCIDENTS } from './incidents.ts';
import type { SoakReport } from './soak.ts';

const SECONDS = 60;
const TIMEOUT_MS = 240_000;

test(
  'the loss of an agent and a daemon under load, kills, full disks and stalls is reported to the last event',
  () => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [join(ROOT, 'test/soak/run.ts')], {
      encoding: 'utf8',
      env: { ...process.env, SOAK_MINUTES: String(SECONDS / 60) },
      timeout: TIMEOUT_MS,
    });
    // The output contains the seed.
    expect([stdout + stderr, status]).toEqual([expect.stringMatching(/All is accounted for\.\n/), 0]);
    const report = JSON.parse(readFileSync(join(ROOT, 'build/soak/report.json'), 'utf8')) as SoakReport;
    const { made, recorded, counted, uncounted, untold } = report.account;
    expect(recorded + counted + uncounted).toBe(made);
    expect([untold, report.duplicates, report.failures]).toEqual([0, 0, []]);
    expect(made).toBeGreaterThan((report.writes_per_second * SECONDS) / 2);
    expect(Math.min(recorded, counted, uncounted)).toBeGreaterThan(1000);
    const seen = new Set(report.incidents.map(({ incident }) => incident));
    expect([...seen].sort()).toEqual(Object.keys(INCIDENTS).sort());
  },
  TIMEOUT_MS,
);
