/** The command that the page gives for a shell is one that kreplay takes, whatever names are in it. */
import { execFile, execFileSync } from 'node:child_process';
import { resolve } from 'node:path';
import { promisify } from 'node:util';
import { buildCommand } from '../../daemon/page/link/command.ts';
import { EMPTY_LINK, type Link } from '../../daemon/page/link/link.ts';
import { hosted } from '../daemon/hosted.ts';
import { recorded, START } from '../daemon/recorded.ts';
import { served } from '../daemon/served.ts';

const HOSTILE = `it's "$(touch x)" \\ \`id\`; #&|*`;

const link = (change: Partial<Link>): Link => ({ ...EMPTY_LINK, ...change });

/** The words that a shell makes of a command. */
function words(command: string): string[] {
  return execFileSync('sh', ['-c', `printf '%s\\0' ${command}`], { encoding: 'utf8' })
    .split('\0')
    .slice(0, -1);
}

test.each([
  [link({}), ['kreplay', 'transactions', '--sort', 'slowest']],
  [
    link({ service: ['a', HOSTILE] }),
    [...'kreplay transactions --sort slowest --service a --service'.split(' '), HOSTILE],
  ],
  [link({ exclude_device: ['vda'] }), 'kreplay transactions --sort slowest --exclude-device vda'.split(' ')],
  [link({ view: 'lanes', transaction: HOSTILE }), ['kreplay', 'show', HOSTILE]],
  [
    link({
      view: 'lanes',
      transaction: 'a',
      latency: 2n ** 53n + 1n,
      clock_offset: ['n:2:-5', 'm:+7'],
      only_service: ['s'],
    }),
    'kreplay whatif a --extra-latency 9007199254740993ns --only service=s --clock-offset n:2=-5ns --clock-offset m=7ns'.split(
      ' ',
    ),
  ],
  [link({ view: 'lanes', transaction: 'a', session: 's', speed: 0.5 }), 'kreplay replay a --speed 0.5'.split(' ')],
  [link({ view: 'live', event_type: ['sys_sync'] }), 'kreplay tail --type sys_sync'.split(' ')],
])('%#: a shell makes these words of it', (given, expected) => {
  expect(words(buildCommand(given, 'http://h:1'))).toEqual([...expected, '--url', 'http://h:1']);
});

const answering = (name: string) =>
  served(
    recorded([{ at: START - 1_000_000n, duration: 500n, file: '/f', requested: 1n, service: name, transaction: name }]),
  );

test.each([HOSTILE, '--help', '-x'])('kreplay answers what the page asks, about a hostile name: %s', async (name) => {
  const { url } = await answering(name);
  const run = async (given: Partial<Link>) => {
    let shown = '';
    for (const command of buildCommand(link(given), url).split(' && ')) {
      const { code, stdout } = await hosted(...words(command).slice(1));
      expect(code).toBe(0);
      shown += stdout;
    }
    return shown;
  };
  const shown = name === HOSTILE ? 'touch x' : name;
  expect(await run({ service: [name], from: START - 2_000_000n, to: START, box_min: 500n })).toContain(shown);
  const alone = await run({ view: 'lanes', transaction: name });
  expect(alone).toContain(shown);
  expect(await run({ view: 'compare', transaction: name, other: name })).toBe(alone + alone);
  const answer = JSON.parse(await run({ view: 'lanes', transaction: name, latency: 7n, timeout: 9n }));
  expect(answer.extra_latency_ns).toBe(7);
  expect(await run({ view: 'compare' })).toContain('sys_write');
});

test('a shell runs two commands of a comparison as one line', async () => {
  const { url } = await answering(HOSTILE);
  const line = buildCommand(link({ view: 'compare', transaction: HOSTILE, other: HOSTILE }), url);
  const command = line.replace(/^kreplay|(?<=&& )kreplay/g, resolve('build/kreplay'));
  const { stdout } = await promisify(execFile)('sh', ['-c', command]);
  expect(stdout.match(/touch x/g)!.length).toBeGreaterThanOrEqual(2);
});
