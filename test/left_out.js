/** A jest reporter: it says which suites `make check` has left out. */
import { globSync } from 'node:fs';
import { HEAVY, INSTALLED, NEEDY, SLOW } from './kinds_of_suites.js';

export default class LeftOut {
  onRunComplete() {
    const suites = globSync('test/**/*.test.ts');
    const matching = (patterns) =>
      suites.filter((suite) => patterns.some((pattern) => new RegExp(pattern).test(suite)));
    const needy = matching([...NEEDY, ...INSTALLED]);
    const long = matching([...HEAVY, ...SLOW]).filter((suite) => !needy.includes(suite));
    const line =
      `\nleft out of ${suites.length} suites: ${needy.length} that need root, a kernel, services, a terminal or more packages, ` +
      `and ${long.length} that take long; make test runs them all\n`;
    process.on('exit', () => process.stdout.write(line));
  }
}
