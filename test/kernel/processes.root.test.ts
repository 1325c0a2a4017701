// An event's service is the program that made it, however its process came to run it.
import { join } from 'node:path';
import { bash } from './programs.ts';
import { record, removeFolders, temporaryFolder } from './recorded_run.ts';

const folder = temporaryFolder();
const out = join(folder, 'out');
const ROUNDS = 101;

afterAll(removeFolders);

test('a process belongs to its new program immediately after any number of execs', async () => {
  // The second exec often reuses the memory of the first program: addresses identify nothing.
  const recorded = await record(() => {
    bash(`for round in $(seq ${ROUNDS}); do
      (printf 1 >>${out}; exec env dd if=/dev/zero bs=2 count=1 status=none >>${out})
    done`);
  });
  const services = (bytes: bigint) =>
    recorded
      .writes()
      .filter(({ file, result }) => file === out && result === bytes)
      .map(({ service_name, comm }) => `${comm} ${service_name}`);
  expect(services(1n)).toEqual(Array(ROUNDS).fill('bash bash'));
  expect(services(2n)).toEqual(Array(ROUNDS).fill('dd dd'));
});
