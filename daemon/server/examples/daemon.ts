/** A daemon whose answers are the same in each run: it serves the example recording, and its clock stands still. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as breathe } from 'node:timers/promises';
import { pino } from 'pino';
import { createMetrics } from '../../metrics/metrics.ts';
import type { Timers } from '../../replay/clock/scheduler.ts';
import { openState } from '../../replay/persistence/state_thread.ts';
import { createPlanner } from '../../replay/plan/planner.ts';
import { createSessions } from '../../replay/session/sessions.ts';
import { createEmbeddedStore } from '../../store/embedded/embedded_store.ts';
import { openRecordingStore } from '../../store/embedded/recording_store.ts';
import { createTails } from '../../tail/tails.ts';
import { buildApp } from '../app.ts';
import { close, listen } from '../server.ts';
import { EXAMPLE_NOW_NS, writeExampleRecording } from './recording.ts';

export interface ExampleDaemon {
  url: string;
  /** Advances the clock of the daemon's replay sessions. */
  pass(ns: bigint): Promise<void>;
  close(): Promise<void>;
}

export async function startExampleDaemon(): Promise<ExampleDaemon> {
  const folder = mkdtempSync(join(tmpdir(), 'kreplay-examples-'));
  writeExampleRecording(join(folder, 'recording.kreplay'));
  const now = () => EXAMPLE_NOW_NS;
  const log = pino({ level: 'silent' });
  const recordings = openRecordingStore(folder);
  const store = createEmbeddedStore(recordings);
  const planner = createPlanner(recordings);
  const state = await openState(join(folder, 'sessions.sqlite'));
  const clock = createReplayClock();
  const sessions = createSessions({ planner, now, steadyNow: clock.now, timers: clock.timers, state });
  const tails = createTails({ store, now, log });
  const app = buildApp({ store, sessions, tails, now, log, metrics: createMetrics(), data: folder });
  const [server, url] = await listen(app, { host: '127.0.0.1', port: 0 });
  return {
    url,
    pass: clock.pass,
    async close() {
      tails.close();
      await sessions.close();
      await close(server);
      await store.close();
      rmSync(folder, { recursive: true });
    },
  };
}

/* The clock of replay sessions, which advances only on command. */

/** Initial time: the steady clock of a host that has been running for half a day. */
const START_NS = 43_348_310_658_584n;
/** Step by which the clock advances. Timers fire up to one step late, so events are late as on a real host. */
const STEP_NS = 1_000_000n;
/** Number of event-loop passes after each step. In these passes, every due timer fires and sets its next timer. */
const TURNS = 4;

interface SteppedClock {
  now: () => bigint;
  timers: Timers;
  pass(ns: bigint): Promise<void>;
}

function createReplayClock(): SteppedClock {
  let nowNs = START_NS;
  const waiting = new Map<object, { dueNs: bigint; callback: () => void }>();

  function ringDue(): void {
    for (const [timer, { dueNs, callback }] of [...waiting]) if (dueNs <= nowNs && waiting.delete(timer)) callback();
  }

  return {
    now: () => nowNs,
    timers: {
      setTimeout(callback, delayMs) {
        const timer = {};
        waiting.set(timer, { dueNs: nowNs + BigInt(Math.ceil(delayMs * 1e6)), callback });
        return timer;
      },
      clearTimeout: (timer) => void waiting.delete(timer as object),
      setImmediate: (callback) => setImmediate(callback),
      clearImmediate: (immediate) => clearImmediate(immediate as NodeJS.Immediate),
    },
    async pass(ns) {
      for (const endNs = nowNs + ns; nowNs < endNs; ) {
        nowNs += STEP_NS;
        ringDue();
        for (let turn = 0; turn < TURNS; turn++) await breathe();
      }
    },
  };
}
