/** Tests machines that are copied with their recording and their position: one of two ships, and the other one says why not. */
import { cpSync } from 'node:fs';
import { type ClickHouseServer, endServers } from '../clickhouse/server.ts';
import { appendRows, newFolder, newWriter, type Row, recorded } from '../daemon/recorded.ts';
import { countAt } from './centre.ts';
import { emptyFleet, expectAll, isThere, startFleet } from './fleet.ts';
import { endShippingHere, shipHere, startHere } from './here.ts';
import { loadRow, loadRows } from './load.ts';

let server: ClickHouseServer;

beforeAll(async () => {
  server = await startFleet();
});
afterEach(async () => {
  await endShippingHere();
  await emptyFleet(server);
});
afterAll(endServers);

const FIRST = 600;
const MORE = 500;
const first = loadRows(FIRST);
/** Events of two machines have the same numbers, and differ in all else. */
const moreOf = (machine: string): Row[] =>
  Array.from({ length: MORE }, (_, i) => ({ ...loadRow(FIRST + i), comm: machine, pid: machine.length }));

function record(folder: string, rows: readonly Row[]): void {
  const writer = newWriter(folder);
  appendRows(writer, rows);
  writer.close();
}

/** Copies the recording and the state of the shipper. */
function copyOf(folder: string): string {
  const copy = newFolder();
  cpSync(folder, copy, { recursive: true });
  return copy;
}

const REFUSED = /another process.*remove its recording.*--claim/;

describe('a machine that is copied with its position', () => {
  test.each(['original', 'copy'] as const)(
    'is refused once the other one has shipped, which is the %s',
    async (which) => {
      const folder = recorded(first);
      await shipHere(folder, server.url);
      const copy = copyOf(folder);
      const [ships, waits] = which === 'original' ? [folder, copy] : [copy, folder];
      record(ships, moreOf('one'));
      record(waits, moreOf('another'));
      await shipHere(ships, server.url);
      await expect(shipHere(waits, server.url)).rejects.toThrow(REFUSED);
      await shipHere(ships, server.url);
      await expectAll(server, [...first, ...moreOf('one')]);
    },
  );

  test('while it ships keeps one of both from going on', async () => {
    const folder = recorded(first);
    const service = startHere(folder, server.url);
    await isThere(server, FIRST);
    const copy = copyOf(folder);
    record(copy, moreOf('copy'));
    const other = startHere(copy, server.url);
    await isThere(server, FIRST + MORE);
    record(folder, moreOf('original'));
    await service.logged(/another process.*an operator must act/);
    expect(other.progress.trouble).toBeUndefined();
    // Events of the original stay in its recording.
    expect(await countAt(server, "SELECT count() FROM kreplay.event WHERE comm = 'original'")).toBe(0);
    await expectAll(server, [...first, ...moreOf('copy')]);
  });

  test('and started at the same moment never has rows of both', async () => {
    const folder = recorded(first);
    await shipHere(folder, server.url);
    const copy = copyOf(folder);
    record(folder, moreOf('one'));
    record(copy, moreOf('another'));
    const ends = await Promise.allSettled([folder, copy].map((one) => shipHere(one, server.url)));
    // Both may see the other one; neither is then taken for the right one.
    expect(ends.filter(({ status }) => status === 'fulfilled').length).toBeLessThanOrEqual(1);
    const comms = await countAt(server, "SELECT uniqExact(comm) FROM kreplay.event WHERE comm IN ('one', 'another')");
    expect(comms).toBeLessThanOrEqual(1);
  });

  test('and set back to an older copy of itself does not send other events with numbers that have arrived', async () => {
    const folder = recorded(first);
    await shipHere(folder, server.url);
    const before = copyOf(folder);
    record(folder, moreOf('later'));
    await shipHere(folder, server.url);
    record(before, moreOf('again'));
    await expect(shipHere(before, server.url)).rejects.toThrow(REFUSED);
    await expectAll(server, [...first, ...moreOf('later')]);
  });
});
