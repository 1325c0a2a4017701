/** Threads that publish their context as OpenTelemetry does: the kernel side reads it from wherever the variable is. */
import { basename } from 'node:path';
import { compile } from '../agent/attribution/otel/programs.ts';
import { compileProgram } from './programs.ts';
import { CHECKED_MS, goOn, publisher, writesIn } from './publishers.ts';
import { newRecorder, record, removeFolders, temporaryFolder } from './recorded_run.ts';

const THREADS = 8;
const SPANS = 50;
/** More than are checked at a time. */
const PROGRAMS = 24;

// The tests wait most of their time, so they run side by side.
const shared = newRecorder();

afterAll(async () => {
  await shared.stop();
  removeFolders();
});

const library = (name: string, options: readonly string[]) =>
  compile(`lib${name}.so`, ['thread_context_variable', 'thread_context_access'], ['-shared', '-fPIC', ...options]);

const loader = () => compileProgram('otel_writes', ['-DLOADS_LIBRARY', '-ldl'], 'otel_writes_loader');

test.concurrent.each<[string, () => string[]]>([
  ['in the program', () => [publisher()]],
  ['in a loaded library', () => [loader(), library('otel_static', ['-mtls-dialect=gnu2'])]],
  [
    'in a library with much of it',
    () => [loader(), library('otel_dynamic', ['-mtls-dialect=gnu2', '-DTLS_BYTES=200000'])],
  ],
])('the variable %s', async (_, programOf) => {
  const [program, ...args] = programOf();
  const folder = temporaryFolder();
  const recorded = await shared.record(() => goOn([program!, folder, ...args], CHECKED_MS));
  const lines = writesIn(recorded, folder).filter(({ file }) => !file!.endsWith('started'));
  const counts = { right: 0, none: 0, wrong: 0, noneRight: 0, noneWrong: 0 };
  for (const { file, trace_id, span_id, transaction_id, attribution, service_name } of lines) {
    const said = basename(file!);
    expect(service_name).toBe('otel-shop');
    if (said === 'none') {
      counts[trace_id === null && transaction_id === null ? 'noneRight' : 'noneWrong']++;
      continue;
    }
    const [thread, span] = [Number.parseInt(said.slice(0, 2), 16) - 0xa0, Number.parseInt(said.slice(-2), 16) - 1];
    const isRight = trace_id === said && span_id === (span + 1).toString(16).padStart(16, '0');
    if (isRight) {
      expect([transaction_id, attribution]).toEqual([`order-${thread}-${span}`, { source: 'otel', quality: 'exact' }]);
    }
    counts[isRight ? 'right' : trace_id === null ? 'none' : 'wrong']++;
  }
  const each = THREADS * SPANS * 2;
  expect(counts).toEqual({ right: each, none: 0, wrong: 0, noneRight: each, noneWrong: 0 });
});

test.concurrent('programs that start at the same time are all checked in time', async () => {
  const folder = temporaryFolder();
  const program = publisher();
  const recorded = await shared.record(async () => {
    await Promise.all(Array.from({ length: PROGRAMS }, () => goOn([program, folder], CHECKED_MS)));
  });
  const lines = writesIn(recorded, folder).filter(({ file }) => !file!.endsWith('started'));
  const services = Map.groupBy(lines, ({ pid }) => pid).values();
  expect([...services].map((own) => new Set(own.map(({ service_name }) => service_name)))).toEqual(
    Array.from({ length: PROGRAMS }, () => new Set(['otel-shop'])),
  );
});

test.concurrent('without the layer the variable is not read', async () => {
  const folder = temporaryFolder();
  const recorded = await record(() => goOn([publisher(), folder], CHECKED_MS), ['--without', 'otel']);
  const lines = writesIn(recorded, folder);
  expect(lines.length).toBeGreaterThan(THREADS * SPANS);
  for (const { trace_id, service_name } of lines) expect([trace_id, service_name]).toEqual([null, 'otel_writes']);
});
