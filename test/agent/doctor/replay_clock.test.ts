/** Tests what `kreplay doctor` says about the priority of the thread that plays replays, also of a daemon that runs. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { diagnoseReplayClock } from '../../../agent/doctor/diagnosis.ts';

const ROOT = join(import.meta.dirname, '../../..');
const folder = mkdtempSync(join(tmpdir(), 'kreplay-replay-clock-'));
afterAll(() => rmSync(folder, { recursive: true }));

/** A stat file; the name of a thread may have blanks and parentheses. */
function thread(pid: number, nice: number, policy: number) {
  const fields = Array(50).fill('0');
  [fields[0], fields[16], fields[38]] = ['S', String(nice), String(policy)];
  return { pid, stat: `${pid} (a) b (c) ${fields.join(' ')}` };
}

test('a real-time priority or a nice value is enough, an ordinary one is reported with the remedy', () => {
  expect(diagnoseReplayClock([])).toMatchObject({ state: 'ok', text: 'no daemon is running' });
  expect(diagnoseReplayClock([thread(7, 0, 1)])).toMatchObject({
    state: 'ok',
    text: 'daemon 7 has a real-time priority',
  });
  expect(diagnoseReplayClock([thread(7, -10, 0)])).toMatchObject({
    state: 'ok',
    text: 'daemon 7 has a nice value of -10',
  });
  expect(diagnoseReplayClock([thread(7, 0, 1), thread(8, 0, 0)])).toMatchObject({
    state: 'warning',
    text: expect.stringContaining('daemon 8 has no priority'),
    advice: expect.stringContaining('LimitRTPRIO=1'),
  });
});

/** Starts a daemon by a command that limits what it may do, and returns what chrt(1) says of the clock's thread. */
async function withDaemon(limits: readonly string[], look: (pid: number, policy: string) => void): Promise<void> {
  const listen = `unix:${join(folder, `socket-${limits.length}`)}`;
  const command = [
    ...limits,
    join(ROOT, 'build/kreplay'),
    'daemon',
    '--no-state',
    '--data',
    folder,
    '--listen',
    listen,
  ];
  const daemon = spawn(command[0]!, command.slice(1), { stdio: ['ignore', 'pipe', 'inherit'] });
  try {
    const [said] = await Promise.race([once(daemon.stdout!, 'data'), once(daemon, 'exit')]);
    expect(String(said)).toContain('serving');
    const tid = await clockThreadOf(daemon.pid!);
    look(daemon.pid!, spawnSync('chrt', ['--pid', tid]).stdout.toString());
  } finally {
    if (daemon.kill('SIGTERM')) await once(daemon, 'exit');
  }
}

/** The thread takes its priority and then its name, which on a busy machine may be after the daemon serves. */
async function clockThreadOf(pid: number): Promise<string> {
  for (let tries = 0; tries < 600; tries++) {
    const { stdout } = spawnSync('sh', ['-c', `grep -l kreplay-clock /proc/${pid}/task/*/comm`]);
    const tid = stdout.toString().split('/')[4];
    if (tid !== undefined) return tid;
    await setTimeout(50);
  }
  throw new Error(`daemon ${pid} has no thread that plays replays`);
}

test('the thread of a daemon takes the priority that it may, and none without a grant', async () => {
  await withDaemon([], (pid, policy) => {
    expect(policy).toContain('SCHED_FIFO|SCHED_RESET_ON_FORK');
    expect(diagnoseReplayClock().facts!.daemons).toContain(`${pid}: a real-time priority`);
  });
  const unprivileged = ['setpriv', '--bounding-set=-sys_nice', '--inh-caps=-sys_nice'];
  await withDaemon(['prlimit', '--rtprio=0:0', ...unprivileged], (pid, policy) => {
    expect(policy).toContain('SCHED_OTHER');
    expect(diagnoseReplayClock()).toMatchObject({ state: 'warning' });
    expect(diagnoseReplayClock().facts!.daemons).toContain(`${pid}: no priority`);
  });
});
