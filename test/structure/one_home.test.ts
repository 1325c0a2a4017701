/** Each event type has its hook, its kernel test and its documentation, and generated text matches the code. */
import { basename } from 'node:path';
import { EVENTS } from '../../bpf/schema/index.ts';
import { GENERATED_PAGES, refreshPage } from '../../daemon/server/generated_pages.ts';
import { FILES, read } from './source_tree.ts';

describe('one home for each fact', () => {
  test.each(EVENTS.map(({ name }) => name))(
    '%s has a hook, a kernel test and a table in agent/docs/events.md',
    (name) => {
      const hook = FILES.find((file) => file === `bpf/${name}.bpf.h`);
      expect(hook && read(hook)).toContain(`EVENT_${name.toUpperCase()}`);
      const kernelTests = FILES.filter((file) => /^test\/kernel\/.*\.test\.ts$/.test(file));
      expect(kernelTests.filter((file) => (file + read(file)).includes(name))).not.toEqual([]);
      expect(read('agent/docs/events.md')).toContain(`**\`${name}\`**`);
    },
  );

  test('every file of BPF hooks is included in the object', () => {
    const included = [...read('bpf/kreplay.bpf.c').matchAll(/^#include "(.*)"$/gm)].map(([, file]) => file!);
    const files = FILES.filter((file) => /^bpf\/\w+\.bpf\.h$/.test(file) && /SEC\("(tp_btf|iter)\//.test(read(file)));
    expect(included.toSorted()).toEqual(files.map((file) => basename(file)));
  });

  test.each(GENERATED_PAGES)('the tables of %s match the code; `make gen` writes them', (page) => {
    expect(refreshPage(page, read(page))).toBe(read(page));
  });

  test('the client of daemon/docs/ci.md is the one that the tests run', () => {
    const [, client] = /```python\n(.*?)```/s.exec(read('daemon/docs/ci.md'))!;
    expect(client).toBe(read('test/e2e/order_client.py'));
  });

  test('files of packages are named with the version of package.json', () => {
    const { version } = JSON.parse(read('package.json')) as { version: string };
    const names = /kreplay(?:-ci)?_([\d.]+)_(?:linux_)?amd64|kreplay-(\d[\d.]*)\.tar\.gz/g;
    const named = ['README.md', ...FILES.filter((file) => !file.startsWith('test/structure/'))].flatMap((file) =>
      [...read(file).matchAll(names)].map(([, first, second]) => `${file}: ${first ?? second}`),
    );
    expect(named.length).toBeGreaterThan(5);
    expect(named.filter((one) => !one.endsWith(`: ${version}`))).toEqual([]);
  });

  test('the lock file names no registry, so that any one can be used', () => {
    const { packages } = JSON.parse(read('package-lock.json')) as { packages: Record<string, { resolved?: string }> };
    const resolved = Object.entries(packages).filter(([, { resolved }]) => resolved !== undefined);
    expect(resolved).toEqual([['node_modules/libbpf-ts', { resolved: 'native', link: true }]]);
  });
});
