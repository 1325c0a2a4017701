/** The player of replays under sanitizers, with threads that feed it, take frames back and pass sockets to and fro. */
import { spawnSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { run } from '../kernel/programs.ts';

const ROOT = join(import.meta.dirname, '../..');
const BUILD = join(ROOT, 'build/test');
const SOURCES = [
  'test/native/clock/stress.cc',
  ...['player', 'player_thread', 'viewer', 'event_frames', 'lock', 'priority'].map((name) => `native/clock/${name}.cc`),
].map((source) => join(ROOT, source));
const SECONDS = '4';

test.each(['thread', 'address,undefined'])(
  '-fsanitize=%s reports nothing, and every frame arrives once',
  (sanitizers) => {
    mkdirSync(BUILD, { recursive: true });
    const program = join(BUILD, `clock_stress_${sanitizers.replace(',', '_')}`);
    run('g++', ['-std=c++20', '-O1', '-g', '-pthread', `-fsanitize=${sanitizers}`, '-o', program, ...SOURCES]);
    const { status, stdout, stderr } = spawnSync(program, [SECONDS], { encoding: 'utf8' });
    expect([status, stderr]).toEqual([0, '']);
    expect(Number.parseInt(stdout, 10)).toBeGreaterThan(1000);
  },
  120_000,
);
