/** Tests what is said about an addon that cannot be loaded: the library and the package to install. */
import { describeAddonProblem, findAddonProblem } from '../../../agent/capture/addon.ts';

test('nothing is missing where the addon can be loaded', () => {
  expect(findAddonProblem()).toBeUndefined();
});

const OTHER_DEBIAN = 'kreplay needs the libraries of Debian 12 or later';

test.each([
  ['libelf.so.1: cannot open shared object file: No such file or directory', 'libelf.so.1', 'libelf1'],
  ['/lib/x86_64-linux-gnu/libz.so.1: file too short', 'libz.so.1', 'zlib1g'],
  ["/lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.36' not found (required by x.node)", 'libc.so.6', OTHER_DEBIAN],
  ["Cannot find module './libbpf_ts.node'\nRequire stack:\n- /x.js", 'libbpf_ts.node', 'make build'],
])('%s', (words, missing, advice) => {
  const problem = describeAddonProblem(words);
  expect(problem).toEqual({ missing, text: words.split('\n')[0], advice: expect.stringContaining(advice) });
});
