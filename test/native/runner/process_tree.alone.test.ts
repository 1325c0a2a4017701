/** Tests that processes that outlive a run are ended, and no others. */
import { execFileSync } from 'node:child_process';
import { compileC } from './run.ts';

test('a PID that was reused after the look at /proc is not signalled, and another one is', () => {
  const words = ['--pid', '--fork', '--mount-proc', compileC('tree_driver')];
  expect(execFileSync('unshare', words, { encoding: 'utf8' })).toBe('kept killed\n');
});
