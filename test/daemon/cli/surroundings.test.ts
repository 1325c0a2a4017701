/** Tests that commands say in a line what is wrong with the machine around them, and never with a stack. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { UserError } from '../../../agent/process/errors.ts';
import { createPrivateFolder, isOfSurroundings, toUserError } from '../../../agent/process/surroundings.ts';
import { hosted, hostedWith } from '../hosted.ts';
import { newFolder } from '../recorded.ts';
import { bundleOf, writesTo } from '../run/incident.ts';
import { TRANSACTION } from '../run/planned.ts';

let folder = '';
let bundle = '';
beforeAll(() => {
  folder = newFolder();
  bundle = bundleOf(writesTo(join(folder, 'out'), [0]));
  writeFileSync(join(folder, 'file'), '');
});

const unusable = () => [join(folder, 'gone'), join(folder, 'file'), '/proc'];

describe('if the temporary folder cannot be used', () => {
  test.each([
    ['events', '--limit', '1'],
    ['stats'],
    ['transactions'],
    ['services'],
    ['show', TRANSACTION],
    ['whatif', TRANSACTION, '--timeout', '1s'],
  ])('%s ends with 1', async (...words) => {
    for (const TMPDIR of unusable()) {
      const { code, stdout, stderr } = await hostedWith({ TMPDIR }, ...words, '--recording', bundle);
      expect([code, stdout, stderr.trim().split('\n')]).toEqual([1, '', [expect.stringContaining('set TMPDIR')]]);
    }
  });

  test('run ends with 125, and its command is not started', async () => {
    const written = join(folder, 'written');
    for (const TMPDIR of unusable()) {
      const words = ['run', '--bundle', bundle, '--transaction', TRANSACTION, '--', 'touch', written];
      const { code, stderr } = await hostedWith({ TMPDIR }, ...words);
      expect([code, stderr.trim().split('\n')]).toEqual([125, [expect.stringContaining('set TMPDIR')]]);
    }
    expect(existsSync(written)).toBe(false);
  });
});

describe('an output of run', () => {
  const run = (...options: string[]) =>
    hosted('run', '--bundle', bundle, '--transaction', TRANSACTION, ...options, '--', 'touch', join(folder, 'ran'));

  test.each([
    ['a folder', () => folder, 'is a folder: name a file'],
    ['a name that is too long', () => join(folder, 'x'.repeat(300)), 'ENAMETOOLONG'],
    ['in a file', () => join(folder, 'file', 'x'), 'its folder does not exist'],
  ])('that is %s is refused before the command is started', async (_, path, reason) => {
    const { code, stderr } = await run('--report', path());
    expect([code, stderr.trim().split('\n')]).toEqual([125, [expect.stringContaining(reason)]]);
    expect(existsSync(join(folder, 'ran'))).toBe(false);
  });

  test('that has no space does not keep the others from being written', async () => {
    const html = join(folder, 'run.html');
    const { code, stderr } = await run('--report', '/dev/full', '--html', html);
    expect([code, stderr]).toEqual([125, expect.stringContaining('/dev/full: no space is left on the device')]);
    expect(stderr).not.toMatch(/^ {4}at /m);
    expect(readFileSync(html, 'utf8')).toContain('</html>');
  });
});

test('a folder is made where it is asked for, or the error names the folder', () => {
  const place = join(folder, 'place');
  mkdirSync(place);
  expect(createPrivateFolder('own-', place).startsWith(join(place, 'own-'))).toBe(true);
  expect(() => createPrivateFolder('own-', join(folder, 'gone'))).toThrow(`no folder can be made in ${folder}/gone`);
});

test('what the machine is not to blame for keeps its stack', () => {
  const failed = (code: string, syscall?: string) => Object.assign(new Error(`${code}: in words`), { code, syscall });
  expect(toUserError(failed('EMFILE', 'open'))).toBeInstanceOf(UserError);
  expect((toUserError(failed('EMFILE', 'open')) as Error).message).toContain('ulimit -n');
  for (const other of [failed('EBADF', 'write'), failed('ERR_INVALID_ARG_TYPE'), failed('ENOENT'), 'text', undefined]) {
    expect(isOfSurroundings(other)).toBe(false);
    expect(toUserError(other)).toBe(other);
  }
});
