/**
 * Runs suites in two lanes, each with a process of its own. Suites that need root record the whole kernel, where the
 * labels of one suite would reach another's agent: they run one at a time, beside all others. Suites that judge time
 * run last, with nothing beside them.
 */
import TestRunner from 'jest-runner';
import { kindsOf } from './kinds.js';

/** A process forgets little of the suites that it has run. */
const SUITES_PER_PROCESS = 12;

function laneOf({ path }) {
  const kinds = kindsOf(path);
  if (kinds.includes('alone')) return 'alone';
  return kinds.includes('root') ? 'recording' : 'beside';
}

export default class Lanes extends TestRunner {
  isSerial = true;
  #beside;
  #pairs;

  constructor(globalConfig, context) {
    super({ ...globalConfig, maxWorkers: 1 }, context);
    this.#beside = new TestRunner({ ...globalConfig, maxWorkers: 1 }, context);
    this.#pairs = new TestRunner({ ...globalConfig, maxWorkers: 2 }, context);
  }

  on(eventName, listener) {
    const runners = [this.#beside, this.#pairs];
    const removals = [super.on(eventName, listener), ...runners.map((runner) => runner.on(eventName, listener))];
    return () => removals.forEach((remove) => void remove());
  }

  async runTests(tests, watcher) {
    const { recording = [], beside = [], alone = [] } = Object.groupBy(tests, laneOf);
    let isRecording = recording.length > 0;
    const recorded = inTurn(recording, (suites) => super.runTests(suites, watcher, PARALLEL)).finally(() => {
      isRecording = false;
    });
    const waiting = [...beside];
    while (isRecording && waiting.length > 0)
      await this.#beside.runTests(waiting.splice(0, SUITES_PER_PROCESS), watcher, PARALLEL);
    await recorded;
    await inTurn(waiting, (suites) => this.#pairs.runTests(suites, watcher, PARALLEL), 2 * SUITES_PER_PROCESS);
    await inTurn(alone, (suites) => super.runTests(suites, watcher, PARALLEL));
  }
}

/** In processes of their own, however many workers there are. */
const PARALLEL = { serial: false };

async function inTurn(suites, run, count = SUITES_PER_PROCESS) {
  for (let first = 0; first < suites.length; first += count) await run(suites.slice(first, first + count));
}
