/** What `kreplay up` was given reaches its agent as it is. */
import { Command } from 'commander';
import { agentArguments, withAgentOptions } from '../../agent/command.ts';

function parsed(args: readonly string[]): Command {
  const command = withAgentOptions(new Command()).option('--listen <address>');
  return command.parse(['--listen', '127.0.0.1:1', ...args], { from: 'user' });
}

test.each([
  [[]],
  [['--data', 'a b', '--node', 'n']],
  [['--retain-bytes', '20GiB', '--retain-age', '7d', '--ring-size', '4']],
  [['--trust-services', '--service-rules', 'rules.json', '--http-services', '*', 'shop']],
  [['--without', 'http', 'journal', '--only-labelled', '--min-duration', '5ms']],
  [['--event-type', 'sys_write', '--service', 'a', 'b', '--except-comm', 'c', '--pid', '1', '2']],
  [['--filter-file', 'filter.json']],
])('%j', (args) => {
  const asked = parsed(args);
  const again = agentArguments(asked);
  expect(again).not.toContain('--listen');
  expect(parsed(again).opts()).toEqual(asked.opts());
  expect(args.filter((arg) => arg.startsWith('--'))).toEqual(
    again.filter((arg) => arg.startsWith('--')).sort(byOrderIn(args)),
  );
});

const byOrderIn = (args: readonly string[]) => (a: string, b: string) => args.indexOf(a) - args.indexOf(b);
