/** A jest reporter: it says at the start how long the run will take, and after each suite where it is. */

/** Time that a suite takes which has not run here before. */
const USUAL_S = 40;

export default class Progress {
  #startMs = performance.now();
  #suites = 0;
  #lanes;
  /** Expected time of all suites, and of those that have ended. */
  #allS = 0;
  #endedS = 0;
  #endedCount = 0;
  /** jest keeps how long suites took when they ran last. */
  #expectedS = new Map();

  constructor({ maxWorkers }) {
    this.#lanes = maxWorkers;
  }

  onRunStart({ numTotalTestSuites }, { estimatedTime }) {
    this.#suites = numTotalTestSuites;
    this.#allS = estimatedTime * this.#lanes || numTotalTestSuites * USUAL_S;
    const guess = estimatedTime > 0 ? '' : ' (a guess: they have not run here before)';
    process.stderr.write(`${numTotalTestSuites} suites, about ${minutes(this.#allS / this.#lanes)}${guess}\n`);
  }

  onTestStart({ path, duration }) {
    this.#expectedS.set(path, duration === undefined ? USUAL_S : duration / 1000);
  }

  onTestResult({ path }) {
    this.#endedCount++;
    this.#endedS += this.#expectedS.get(path) ?? USUAL_S;
    const elapsedS = (performance.now() - this.#startMs) / 1000;
    // What has ended shows how fast the machine is today.
    const pace = elapsedS / this.#endedS;
    const leftS = Math.max(this.#allS - this.#endedS, 0) * pace;
    const left = this.#endedCount === this.#suites ? '' : `, about ${minutes(leftS)} left`;
    process.stderr.write(`${this.#endedCount} of ${this.#suites} suites after ${minutes(elapsedS)}${left}\n`);
  }
}

const minutes = (seconds) => `${Math.ceil(seconds / 60)} min`;
