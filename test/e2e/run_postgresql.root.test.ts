/**
 * PostgreSQL as an unprivileged user, from initdb through pgbench to its shutdown: recorded, and run again under an
 * incident in which each write of its log takes 10 ms more. Its rows stay the same, and pgbench sees it in each
 * transaction.
 */
import { execFileSync } from 'node:child_process';
import { chmodSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { RunResult } from '../../daemon/run/report/result.ts';
import { record, removeFolders } from '../kernel/recorded_run.ts';
import { AS_NOBODY, NOBODY } from '../unprivileged.ts';
import { KREPLAY, kreplay, temporaryFolder } from './kreplay.ts';
import { PROGRAMS } from './postgresql_server.ts';

const TRANSACTIONS = 10;
const EXTRA_MS = 10;
/** More than the runner takes off a wait for its own wake-up. */
const EARLY_MS = 1;

/** A shell script; its folder is $0. */
const SCRIPT = `
PATH=${PROGRAMS}:$PATH
cd $0
initdb -D data --auth=trust --locale=C --encoding=UTF8 -U shop > initdb.log
pg_ctl -D data -w -l log -o "-c listen_addresses= -c unix_socket_directories=$0" start > pg_ctl.log
psql -qh $0 -U shop -c 'create table notes (i int)' postgres
echo '\\set i :i + 1
insert into notes values (:i);' > script
pgbench -nh $0 -U shop -D i=0 -t ${TRANSACTIONS} -f script -l --log-prefix=took postgres > pgbench.log
psql -qAth $0 -U shop -c 'select count(*), sum(i) from notes' postgres > rows
pg_ctl -D data -m fast stop > pg_ctl.log
pg_controldata data | grep 'cluster state' >> rows`;

const ROWS = '10|55\nDatabase cluster state:               shut down\n';

let folder: ReturnType<typeof temporaryFolder>;
beforeAll(() => {
  folder = temporaryFolder();
  chmodSync(folder.path, 0o755);
});
afterAll(() => {
  folder.remove();
  removeFolders();
});

/** How many microseconds each transaction took, by pgbench's clock. */
function tookMicroseconds(place: string): number[] {
  const [file] = execFileSync('sh', ['-c', `ls ${place}/took.*`], { encoding: 'utf8' })
    .trim()
    .split('\n');
  const lines = readFileSync(file!, 'utf8').trim().split('\n');
  return lines.map((line) => Number(line.split(' ')[2]));
}

test('PostgreSQL', async () => {
  // Both runs use the same folder: its path is part of what is recorded.
  const place = join(folder.path, 'place');
  const emptyPlace = () => execFileSync('sh', ['-ec', `rm -rf ${place}; mkdir ${place}; chown ${NOBODY} ${place}`]);
  const script = ['bash', '-ec', SCRIPT, place];
  emptyPlace();
  const recorded = await record(() => {
    execFileSync(AS_NOBODY[0], [...AS_NOBODY.slice(1), KREPLAY, 'exec', '--transaction', 'pg', '--', ...script], {
      // With a pipe as its input, bash would read the startup files of the user who runs the test.
      stdio: ['ignore', 'pipe', 'inherit'],
    });
  });
  expect(readFileSync(join(place, 'rows'), 'utf8')).toBe(ROWS);
  const bundle = join(folder.path, 'pg.kreplay');
  const source = ['--recording', join(recorded.dataFolder, 'recording.kreplay')];
  expect(kreplay(['export', ...source, '--transaction', 'pg', '--output', bundle]).status).toBe(0);
  chmodSync(bundle, 0o644);

  emptyPlace();
  const report = join(place, 'report.json');
  const incident = ['--bundle', bundle, '--transaction', 'pg', '--report', report];
  const rule = `sys_write:path=*/pg_wal/*:comm=postgres:extra=${EXTRA_MS}ms`;
  const command = [KREPLAY, 'run', ...incident, '--inject', rule, '--', ...script];
  execFileSync(AS_NOBODY[0], [...AS_NOBODY.slice(1), ...command], { stdio: ['ignore', 'pipe', 'pipe'] });
  expect(readFileSync(join(place, 'rows'), 'utf8')).toBe(ROWS);
  const took = tookMicroseconds(place);
  expect(took).toHaveLength(TRANSACTIONS);
  expect(Math.min(...took)).toBeGreaterThan((EXTRA_MS - EARLY_MS) * 1000);
  const { verdict, figures } = JSON.parse(readFileSync(report, 'utf8')) as RunResult;
  expect(verdict).not.toBe('diverged');
  expect(figures!.injected_ns).toBeGreaterThan(TRANSACTIONS * EXTRA_MS * 1e6);
}, 180_000);
