/** The kernel reuses the pid of a process that ended within a request: its next owner inherits nothing of that. */
import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Recorded, readRecording, record, removeFolders, temporaryFolder } from './recorded_run.ts';

const SERVICE = 'reused';
const LOOK_MS = 10;

afterAll(removeFolders);

const untilRecorded = async (dataFolder: string) => {
  const hasWrites = () => readRecording(dataFolder).writes({ services: [SERVICE] }).length > 0;
  while (!hasWrites()) await sleep(LOOK_MS);
};

test('an open request of an exited process does not affect the next process with its PID', async () => {
  const [folder, dataFolder] = [temporaryFolder(), temporaryFolder()];
  const traces = [randomBytes(16).toString('hex'), randomBytes(16).toString('hex')];
  const script = join(import.meta.dirname, 'http_servers', 'reused_pid.py');
  const work = async () => {
    const program = spawn('/usr/bin/python3', [script, folder, ...traces], {
      env: { PATH: process.env.PATH, OTEL_SERVICE_NAME: SERVICE },
      stdio: ['pipe', 'pipe', 'inherit'],
    });
    const ended = once(program, 'exit');
    await once(program.stdout, 'data');
    // The agent knows the process once its first write is recorded.
    await untilRecorded(dataFolder);
    program.stdin.end();
    expect((await ended)[0]).toBe(0);
  };
  const recorded: Recorded = await record(work, ['--http-services', SERVICE], dataFolder);
  const served = recorded.writes({ services: [SERVICE] }).filter(({ file }) => file === join(folder, 'served'));
  expect(served.map(({ trace_id }) => trace_id)).toEqual(traces);
});
