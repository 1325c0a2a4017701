/** Tests that options of `kreplay up` reach its agent and its daemon verbatim, each the ones that it supports. */
import { Command } from 'commander';
import { addAgentOptions } from '../../../agent/command.ts';
import { addLogOptions } from '../../../agent/output/log.ts';
import { addForwardedOptions } from '../../../daemon/cli/up.ts';
import { addDaemonOptions } from '../../../daemon/server/options.ts';

const ROOMS = { agent: addAgentOptions, daemon: addDaemonOptions, both: addLogOptions };

function parsed(args: readonly string[]) {
  const command = new Command();
  const given = Object.entries(ROOMS).map(([room, declare]) => [room, addForwardedOptions(command, declare)]);
  command.parse(args, { from: 'user' });
  return { options: command.opts(), given: Object.fromEntries(given) as Record<string, string[]> };
}

test.each([
  ['agent', []],
  ['agent', ['--data', 'a b', '--node', 'n']],
  ['agent', ['--retain-bytes', '20GiB', '--retain-age', '7d', '--ring-size', '4']],
  ['agent', ['--trust-services', '--service-rules', 'rules.json', '--http-services', '*', 'shop']],
  ['agent', ['--without', 'http', 'journal', '--only-labelled', '--min-duration=5ms']],
  ['agent', ['--event-type', 'sys_write', '--service', 'a', 'b', '--except-comm', 'c', '--pid', '1', '2']],
  ['agent', ['--filter-file', '-x.json']],
  ['daemon', ['--listen', '[::1]:1', '--tokens', 't.json', '--insecure-http', '--max-scans', '3']],
  ['daemon', ['--tls-cert', 'c.pem', '--tls-key', 'k.pem', '--tls-client-ca', 'ca.pem', '--query-timeout', '1500us']],
  ['daemon', ['--cors-origin', 'https://a.example', '--cors-origin', 'https://b.example', '--listen', 'unix:/s p']],
  ['daemon', ['--trusted-proxy', '10.0.0.0/8', 'unix', '--open-metrics']],
  ['daemon', ['--recording', 'a', '--recording', 'b', '--log-slower-than', '2ms']],
  ['both', ['--log-level', 'debug', '--log-format', 'json']],
] as const)('%s %j', (room, args) => {
  const { options, given } = parsed(args);
  const again = parsed(given[room]!);
  expect(again.options).toEqual(options);
  for (const [other, its] of Object.entries(given)) if (other !== room) expect(its).toEqual([]);
});
