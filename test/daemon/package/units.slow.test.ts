// systemd finds nothing wrong in the units, and what they leave open is little.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { HOST_UNFIT_EXIT_CODE, WRONG_CONFIGURATION_EXIT_CODE } from '../../../agent/process/errors.ts';
import { unitFacts } from './unit_facts.ts';

const EXPOSURE_MAX = 2.5;

const DEBIAN = join(import.meta.dirname, '../../../daemon/package/debian');

const folder = mkdtempSync(join(tmpdir(), 'kreplay-units-'));

afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe.each([
  'kreplay-agent.service',
  'kreplay-daemon.service',
  'kreplay-ship.service',
  'kreplay-watch.service',
  'kreplay-fleet-retain.service',
])('%s', (unit) => {
  test('systemd accepts the whole unit', () => {
    // The command has to exist: ours comes with the package.
    const path = join(folder, unit);
    const text = readFileSync(join(DEBIAN, unit), 'utf8').replace('/usr/bin/kreplay', '/bin/true');
    writeFileSync(path, text.replace(/^Documentation=.*\n/m, ''));
    const { stderr } = spawnSync('systemd-analyze', ['verify', '--recursive-errors=no', path], { encoding: 'utf8' });
    expect(stderr.split('\n').filter((line) => line.includes(unit))).toEqual([]);
  });

  test(`its exposure is at most ${EXPOSURE_MAX}`, () => {
    const args = ['security', '--offline=true', '--no-pager', join(DEBIAN, unit)];
    const { stdout } = spawnSync('systemd-analyze', args, { encoding: 'utf8' });
    const exposure = Number(/Overall exposure level for \S+: ([\d.]+)/.exec(stdout)?.[1]);
    expect(exposure).toBeLessThanOrEqual(EXPOSURE_MAX);
  });

  test('the unit requires no other', () => {
    expect(Object.keys(unitFacts(unit)).filter((key) => /Requires|Wants|BindsTo|PartOf/.test(key))).toEqual([]);
  });
});

test.each([
  ['kreplay-agent.service', `${WRONG_CONFIGURATION_EXIT_CODE} ${HOST_UNFIT_EXIT_CODE}`],
  ['kreplay-daemon.service', String(WRONG_CONFIGURATION_EXIT_CODE)],
  ['kreplay-ship.service', String(WRONG_CONFIGURATION_EXIT_CODE)],
  ['kreplay-watch.service', String(WRONG_CONFIGURATION_EXIT_CODE)],
])('%s is restarted when it hangs or fails, not when it ends with %s', (unit, lasting) => {
  const { Type, WatchdogSec, Restart, RestartPreventExitStatus } = unitFacts(unit);
  expect([Type, Restart, RestartPreventExitStatus]).toEqual(['notify', 'on-failure', lasting]);
  expect(Number(WatchdogSec)).toBeGreaterThan(0);
});

test.each(['kreplay-agent.service', 'kreplay-daemon.service'])(
  'a reload lets %s read its configuration again',
  (unit) => {
    expect(unitFacts(unit).ExecReload).toContain('kill -HUP $MAINPID');
  },
);
