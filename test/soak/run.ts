/** `make soak`: runs a soak for SOAK_MINUTES, prints its result, and leaves it in build/soak/report.json. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { stringify } from '../../daemon/base/exact_json.ts';
import { megabytes, tableText } from '../bench/table.ts';
import { SOAK, type SoakReport, soak } from './soak.ts';

const FOLDER = resolve(import.meta.dirname, '../../build/soak');
const MINUTES_DEFAULT = 20;
/** Time enough for each kind of incident. */
const MINUTES_MIN = 1;

const minutes = Number(process.env.SOAK_MINUTES || MINUTES_DEFAULT);
const seed = Number(process.env.SOAK_SEED || Math.floor(Math.random() * 2 ** 32));
if (!(minutes >= MINUTES_MIN) || !Number.isInteger(seed)) {
  process.stderr.write(`SOAK_MINUTES must be ${MINUTES_MIN} or more, SOAK_SEED a whole number\n`);
  process.exit(2);
}

const began = performance.now();
const onProgress = (incident: string) =>
  process.stderr.write(`${((performance.now() - began) / 1000).toFixed(0).padStart(5)} s  ${incident}\n`);
process.stderr.write(`soak of ${minutes} minutes, SOAK_SEED=${seed}\n`);
const ending = new AbortController();
for (const name of ['SIGINT', 'SIGTERM']) process.once(name, () => ending.abort());
const report = await soak({ pace: SOAK, seconds: minutes * 60, seed, onProgress, signal: ending.signal }).catch(
  (error) => {
    if (!ending.signal.aborted) throw error;
    process.stderr.write('interrupted\n');
    process.exit(130);
  },
);
mkdirSync(FOLDER, { recursive: true });
writeFileSync(join(FOLDER, 'report.json'), `${stringify(report)}\n`);
process.stdout.write(textOf(report));
if (report.failures.length > 0) process.exitCode = 1;

function textOf({ incidents, account, duplicates, clients, growth, failures }: SoakReport): string {
  const { made, recorded, counted, uncounted, untold, windows, byCause } = account;
  const count = (value: number) => value.toLocaleString('en-US');
  const size = (measure: string, value: number) =>
    measure.endsWith('_bytes') ? `${megabytes(value)} MB` : value.toFixed(1);
  const times = Map.groupBy(incidents, ({ incident }) => incident);
  const causes = Object.entries(byCause).filter(([, lost]) => lost > 0);
  return [
    'What happened:\n',
    tableText([['incident', 'times'], ...[...times].map(([kind, all]) => [kind, count(all.length)])]),
    `\nEvents, in ${windows} windows in which some are missing:\n`,
    tableText([
      ['', 'events'],
      ['made', count(made)],
      ['recorded', count(recorded)],
      ['lost, and counted', count(counted)],
      ...causes.map(([cause, lost]) => [`  ${cause}`, count(lost)]),
      ['lost with a killed agent', count(uncounted)],
      ['lost, and not told', count(untold)],
      ['recorded twice', count(duplicates)],
    ]),
    '\nWhat they take, while nobody is killed:\n',
    tableText([
      ['', 'median', 'growth', 'tolerated', ''],
      ...growth.map(({ measure, median, growth, tolerated, flat }) => [
        measure.replace('_bytes', ''),
        size(measure, median),
        size(measure, growth),
        size(measure, tolerated),
        flat ? 'flat' : 'grows',
      ]),
    ]),
    `\nClients: ${count(clients.answers)} answers, ${count(clients.busy)} busy, ${count(clients.broken)} broken by a kill, `,
    `${megabytes(clients.slow_bytes)} MB read slowly\n`,
    failures.length === 0 ? 'All is accounted for.\n' : failures.map((failure) => `FAILED: ${failure}\n`).join(''),
  ].join('');
}
