/** Tests a `kreplay daemon` process that is given `--recording` several times. */
import { truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Running, start } from '../command_line.ts';
import { hosted } from '../hosted.ts';
import { newFolder, recorded, recordedOn, recordingPath, START } from '../recorded.ts';

const running: Running[] = [];
afterEach(async () => {
  for (const { child, ended } of running.splice(0)) {
    child.kill('SIGKILL');
    await ended;
  }
});

async function daemon(...args: string[]): Promise<{ line: string; nodes: string[] }> {
  const one = start('daemon', '--listen', '127.0.0.1:0', ...args);
  running.push(one);
  const line = await one.printed(/\n/);
  const answer = await fetch(`${/ at (\S+)\n/.exec(line)![1]}/api/events`);
  const { events } = (await answer.json()) as { events: { node: string }[] };
  return { line, nodes: events.map(({ node }) => node) };
}

test('each named file is served', async () => {
  const [a, b] = ['a', 'b'].map((node, i) => recordingPath(recordedOn(node, [{ at: START + BigInt(i) }])));
  const { line, nodes } = await daemon('--recording', b!, '--recording', a!);
  expect(line).toContain(`serving ${b}, ${a} at http`);
  expect(nodes).toEqual(['a', 'b']);
});

test('a named file is served beside a named data folder', async () => {
  const a = recordingPath(recordedOn('a', [{ at: START }]));
  const data = recorded([{ at: START + 1n }]);
  expect((await daemon('--recording', a, '--data', data)).nodes).toEqual(['a', 'test-node']);
  // A data folder may get its recording later.
  expect((await daemon('--recording', a, '--data', newFolder())).nodes).toEqual(['a']);
});

test.each<[string, RegExp, () => string]>([
  ['missing', /: give the path/, () => join(newFolder(), 'none.kreplay')],
  ['a folder', /--data/, () => newFolder()],
  ['no recording', /is not a kreplay recording/, () => file('text that is no database at all, and is long'.repeat(20))],
  ['empty', /is empty/, () => file('')],
  ['damaged', /damaged/, () => cutShort(recordingPath(recorded([{ at: START }])))],
])('a file that is %s is reported at the start', async (_what, message, path) => {
  const bad = path();
  const good = recordingPath(recorded([{ at: START }]));
  const { code, stdout, stderr } = await hosted('daemon', '--recording', good, '--recording', bad);
  expect([code, stdout]).toEqual([1, '']);
  expect(stderr).toMatch(/^kreplay: .*\n$/);
  expect(stderr).toMatch(message);
  expect(stderr).toContain(bad);
});

function file(text: string): string {
  const path = join(newFolder(), 'given.kreplay');
  writeFileSync(path, text);
  return path;
}

function cutShort(path: string): string {
  truncateSync(path, 4096);
  return path;
}
