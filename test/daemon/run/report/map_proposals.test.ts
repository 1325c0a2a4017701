/** Tests which maps are proposed for files of an incident that a run did not find, and how they are written. */
import { execFileSync } from 'node:child_process';
import fc from 'fast-check';
import { formatMapOption, formatProposals } from '../../../../daemon/run/report/map_option.ts';
import { matchFolders } from '../../../../daemon/run/report/map_proposals.ts';

const FOLDER = '/ci/shop';

/** The proposal as `HERE=THERE`: all of it with a plus, or contradictions with a question mark. */
function proposed(recorded: readonly string[], here: readonly string[], folder = FOLDER): string {
  const { maps, fits } = matchFolders(recorded, here, folder);
  return maps.map((map) => `${map.here}=${map.there}`).join(fits ? ' + ' : ' ? ');
}

test.each<[string, string[], string[], string]>([
  ['one file', ['/srv/app/log'], ['/ci/shop/var/log'], '/ci/shop/var=/srv/app'],
  [
    'files in several folders below one',
    ['/srv/app/a/log', '/srv/app/b/log', '/srv/app/db'],
    ['/ci/shop/var/a/log', '/ci/shop/var/b/log', '/ci/shop/var/db', '/ci/shop/other'],
    '/ci/shop/var=/srv/app',
  ],
  ['not above the folder of the run', ['/srv/shop/orders'], ['/ci/shop/orders'], '/ci/shop=/srv/shop'],
  ['above it if the files are elsewhere', ['/srv/shop/orders'], ['/tmp/x/shop/orders'], '/tmp/x=/srv'],
  ['not for the whole file system', ['/data/log'], ['/tmp/data/log'], '/tmp/data=/data'],
  ['not for a file in the root', ['/log'], ['/ci/shop/log'], ''],
  ['not to the same folder', ['/srv/app/log'], ['/srv/app/log'], ''],
  ['not for another name', ['/srv/app/log'], ['/ci/shop/log2', '/ci/shop/lo'], ''],
  ['no folder that an option cannot name', ['/srv/app/log'], ['/ci/shop/a=b/log', '/ci/shop/\uFFFD/log'], ''],
  [
    'two folders that fit: both, and none is right',
    ['/srv/app/log'],
    ['/ci/shop/a/log', '/ci/shop/b/log'],
    '/ci/shop/a=/srv/app ? /ci/shop/b=/srv/app',
  ],
  [
    'two recorded folders for one here: both, and none is right',
    ['/srv/a/log', '/srv/b/log'],
    ['/ci/shop/log'],
    '/ci/shop=/srv/a ? /ci/shop=/srv/b',
  ],
  [
    'the folder that has all the files, not one that has some',
    ['/srv/app/log', '/srv/app/db'],
    ['/ci/shop/var/log', '/ci/shop/var/db', '/ci/shop/tmp/log'],
    '/ci/shop/var=/srv/app',
  ],
  [
    'several folders for files of several',
    ['/srv/app/db', '/var/log/app/x.log'],
    ['/ci/shop/data/db', '/ci/shop/logs/x.log'],
    '/ci/shop/data=/srv/app + /ci/shop/logs=/var/log/app',
  ],
  [
    'the inner folder first',
    ['/srv/app/db', '/log/y/x.log'],
    ['/ci/shop/var/db', '/ci/shop/var/old/x.log'],
    '/ci/shop/var/old=/log/y + /ci/shop/var=/srv/app',
  ],
  [
    'lower folders where the upper ones would contradict each other',
    ['/srv/db/f', '/lib/log/x.log'],
    ['/ci/shop/db/f', '/ci/shop/log/x.log'],
    '/ci/shop/log=/lib/log + /ci/shop/db=/srv/db',
  ],
])('%s', (_, recorded, here, expected) => {
  expect(proposed(recorded, here)).toBe(expected);
});

/** Returns the name to which the helper maps a name, by the first map that fits. */
function inProduction(name: string, maps: readonly { here: string; there: string }[]): string {
  const map = maps.find(({ here }) => name.startsWith(`${here}/`));
  return map ? `${map.there}${name.slice(map.here.length)}` : name;
}

test('maps that fit find each file that they count, and the order of the names does not matter', () => {
  const part = fc.constantFrom('a', 'b', 'log', 'x');
  const path = fc.array(part, { minLength: 1, maxLength: 5 }).map((parts) => `/${parts.join('/')}`);
  const paths = fc.uniqueArray(path, { maxLength: 12 });
  fc.assert(
    fc.property(paths, paths, path, (recorded, here, folder) => {
      const { maps, fits } = matchFolders(recorded, here, folder);
      if (!fits) return;
      const found = new Set(here.map((name) => inProduction(name, maps)).filter((name) => recorded.includes(name)));
      expect(found.size).toBeGreaterThanOrEqual(Math.max(...maps.map(({ files }) => files)));
      const other = matchFolders(recorded.toReversed(), here.toReversed(), folder);
      const sorted = (all: typeof maps) => all.map((map) => `${map.here}=${map.there}`).sort();
      expect([sorted(other.maps), other.fits]).toEqual([sorted(maps), true]);
    }),
    { numRuns: 2000 },
  );
});

test('many files are no proposal, and take no time', () => {
  const names = (root: string) => Array.from({ length: 1000 }, (_, at) => `${root}/${at}/log`);
  expect(proposed(names('/srv'), names('/ci/shop'))).toBe('');
  const apart = (root: string) => Array.from({ length: 1000 }, (_, at) => `${root}/log${at}`);
  expect(proposed(apart('/srv'), apart('/ci/shop'))).toBe('/ci/shop=/srv');
});

describe('an option for a shell', () => {
  const surroundings = { folder: FOLDER, pwd: FOLDER };
  const option = (here: string, there: string, pwd: string | undefined = FOLDER) =>
    formatMapOption({ here, there, files: 1 }, { folder: FOLDER, pwd });

  test('names the working folder as a job does, unless a link leads there', () => {
    expect(option('/ci/shop/var', '/srv/app')).toBe('--map "$PWD/var=/srv/app"');
    expect(option('/ci/shop', '/srv')).toBe('--map "$PWD=/srv"');
    expect(option('/ci/shop/var', '/srv/app', '/link')).toBe('--map /ci/shop/var=/srv/app');
    expect(option('/ci/shop2/var', '/srv/app')).toBe('--map /ci/shop2/var=/srv/app');
  });

  test('is one word of a shell, whatever the names are', () => {
    const name = fc.string({ unit: 'binary-ascii', minLength: 1 }).filter((text) => !/[\0\n\r=]/.test(text));
    fc.assert(
      fc.property(fc.constantFrom('/tmp', FOLDER), name, name, (root, here, there) => {
        const map = { here: `${root}/${here}`, there: `/${there}`, files: 1 };
        const text = formatMapOption(map, surroundings).slice('--map '.length);
        const seen = execFileSync('sh', ['-c', `PWD=${FOLDER}; printf %s ${text}`], { encoding: 'utf8' });
        expect(seen).toBe(`${map.here}=${map.there}`);
      }),
      { numRuns: 50 },
    );
  });

  test('is one of several if they contradict each other', () => {
    const options = ['--map a=b', '--map c=d', '--map e=f', '--map g=h', '--map i=j', '--map k=l'];
    expect(formatProposals({ maps: [], fits: true, options: options.slice(0, 2) })).toBe('--map a=b --map c=d');
    expect(formatProposals({ maps: [], fits: false, options })).toBe(
      '--map a=b, or --map c=d, or --map e=f, or --map g=h, or 2 others',
    );
  });
});
