/** The player of replays under sanitizers, with threads that feed it, take frames back and pass sockets to and fro. */
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { times } from '../../repeats.ts';
import { compiled, sourcesIn } from '../compiled.ts';

const ROOT = join(import.meta.dirname, '../../..');
const SOURCES = [
  'test/native/clock/stress.cc',
  ...['player', 'player_thread', 'viewer', 'event_frames', 'lock', 'priority'].map((name) => `native/clock/${name}.cc`),
].map((source) => join(ROOT, source));
const SECONDS = String(times(1));

export function expectNothingReported(sanitizers: string): void {
  const words = ['-std=c++20', '-O1', '-g', '-pthread', `-fsanitize=${sanitizers}`, ...SOURCES];
  const depends = [SOURCES[0]!, ...['native/clock', 'native/base'].flatMap((folder) => sourcesIn(join(ROOT, folder)))];
  const program = compiled(`clock_stress_${sanitizers.replace(',', '_')}`, 'g++', words, depends);
  const { status, stdout, stderr } = spawnSync(program, [SECONDS], { encoding: 'utf8' });
  expect([status, stderr]).toEqual([0, '']);
  expect(Number.parseInt(stdout, 10)).toBeGreaterThan(1000);
}
