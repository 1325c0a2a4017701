/** Tests machines that are copied with their recording and their position: one of two ships, and the other one says why not. */
import { cpSync } from 'node:fs';
import { type ClickHouseServer, endServers, isInstalled } from '../clickhouse/server.ts';
import { appendRows, newFolder, newWriter, type Row, recorded } from '../daemon/recorded.ts';
import { countAt } from './centre.ts';
import { emptyFleet, endShippers, expectAll, isThere, shipOnce, startFleet, startShip } from './fleet.ts';
import { loadRow, loadRows } from './load.ts';

const withServer = isInstalled ? describe : describe.skip;
let server: ClickHouseServer;

beforeAll(async () => {
  if (isInstalled) server = await startFleet();
});
afterEach(async () => {
  await endShippers();
  if (isInstalled) await emptyFleet(server);
});
afterAll(endServers);

const FIRST = 6000;
const MORE = 5000;
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

const REFUSED = { code: 1, stderr: expect.stringMatching(/another process.*remove its recording.*--claim/) };

withServer('a machine that is copied with its position', () => {
  test.each(['original', 'copy'] as const)(
    'is refused once the other one has shipped, which is the %s',
    async (which) => {
      const folder = recorded(first);
      expect(await shipOnce(folder, server.url)).toMatchObject({ code: 0 });
      const copy = copyOf(folder);
      const [ships, waits] = which === 'original' ? [folder, copy] : [copy, folder];
      record(ships, moreOf('one'));
      record(waits, moreOf('another'));
      expect(await shipOnce(ships, server.url)).toMatchObject({ code: 0 });
      expect(await shipOnce(waits, server.url)).toMatchObject(REFUSED);
      expect(await shipOnce(ships, server.url)).toMatchObject({ code: 0 });
      await expectAll(server, [...first, ...moreOf('one')]);
    },
  );

  test('while it ships keeps one of both from going on', async () => {
    const folder = recorded(first);
    const service = startShip(folder, server.url, '--flush', '1s');
    await isThere(server, FIRST);
    const copy = copyOf(folder);
    record(copy, moreOf('copy'));
    const other = startShip(copy, server.url, '--flush', '1s');
    await isThere(server, FIRST + MORE);
    record(folder, moreOf('original'));
    await service.logged(/another process.*an operator must act/);
    expect(other.child.exitCode).toBeNull();
    // Events of the original stay in its recording.
    expect(await countAt(server, "SELECT count() FROM kreplay.event WHERE comm = 'original'")).toBe(0);
    await expectAll(server, [...first, ...moreOf('copy')]);
  });

  test('and started at the same moment never has rows of both', async () => {
    const folder = recorded(first);
    await shipOnce(folder, server.url);
    const copy = copyOf(folder);
    record(folder, moreOf('one'));
    record(copy, moreOf('another'));
    const ends = await Promise.all([folder, copy].map((one) => shipOnce(one, server.url)));
    // Both may see the other one; neither is then taken for the right one.
    expect(ends.filter(({ code }) => code === 0).length).toBeLessThanOrEqual(1);
    const comms = await countAt(server, "SELECT uniqExact(comm) FROM kreplay.event WHERE comm IN ('one', 'another')");
    expect(comms).toBeLessThanOrEqual(1);
  });

  test('and set back to an older copy of itself does not send other events with numbers that have arrived', async () => {
    const folder = recorded(first);
    await shipOnce(folder, server.url);
    const before = copyOf(folder);
    record(folder, moreOf('later'));
    await shipOnce(folder, server.url);
    record(before, moreOf('again'));
    expect(await shipOnce(before, server.url)).toMatchObject(REFUSED);
    await expectAll(server, [...first, ...moreOf('later')]);
  });
});
