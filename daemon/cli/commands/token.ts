/** `kreplay token`: manages the tokens of a daemon. */

import { Command, InvalidArgumentError, Option } from 'commander';
import { addHelpEnd } from '../../../agent/config/help.ts';
import { stringify } from '../../base/exact_json.ts';
import { SCOPES, type Scope } from '../../contract/words.ts';
import { createSecret, hashSecret } from '../../http/access/token.ts';
import {
  changeTokenFile,
  isTokenName,
  NAME_RULE,
  type StoredToken,
  viewTokenFile,
} from '../../http/access/token_file.ts';
import { CommandError } from '../client/command_error.ts';
import { collectWords, duration } from '../options/option_values.ts';
import { createTextTable, type TextColumn } from '../print/table.ts';

interface CreateOptions {
  name: string;
  scope: Scope[];
  expires?: number;
  tokens: string;
}

export function createTokenCommand(): Command {
  const command = new Command('token')
    .summary('create, list and revoke access tokens')
    .description('create, list and revoke the tokens that a daemon requires');
  const create = addTokensOption(command.command('create'))
    .description('add a token to the file and print its secret, which is not stored')
    .requiredOption('--name <name>', 'name of the token', parseTokenName)
    .requiredOption(
      '--scope <scopes>',
      `scopes of the token: ${SCOPES.join(', ')}; comma-separated or repeated`,
      collectScopes,
    )
    .option('--expires <duration>', 'lifetime of the token, such as 12h, 30d (default: unlimited)', parseLifetimeMs)
    .action(createToken);
  const listed = addTokensOption(command.command('list'))
    .description('list names, scopes and times, without secrets')
    .addOption(
      new Option('--output <format>', 'output format')
        .choices(['table', 'json'])
        .default(process.stdout.isTTY ? 'table' : 'json', 'table on a terminal, else json'),
    )
    .action(listTokens);
  const revoke = addTokensOption(command.command('revoke'))
    .description('revoke a token; a running daemon refuses it from then on')
    .argument('<name>', 'name of the token')
    .action(revokeToken);
  const examples = [
    'kreplay token create --name ci --scope events:read --expires 30d --tokens tokens.json',
    'kreplay token list --tokens tokens.json',
    'kreplay token revoke ci --tokens tokens.json',
  ] as const;
  for (const [i, one] of [create, listed, revoke].entries()) addHelpEnd(one, { examples: [examples[i]!] });
  return addHelpEnd(command, { examples });
}

function addTokensOption(command: Command): Command {
  return command.requiredOption('--tokens <file>', 'token file, which the daemon reads with --tokens');
}

function createToken({ name, scope, expires: lifetimeMs, tokens: path }: CreateOptions): void {
  const secret = createSecret();
  const nowMs = Date.now();
  changeTokenFile(path, (tokens) => {
    if (tokens.some((token) => token.name === name))
      throw new CommandError(`there is a token ${name} already: revoke it, or choose another name`);
    return [
      ...tokens,
      {
        name,
        sha256: hashSecret(secret).toString('hex'),
        scopes: [...new Set(scope)],
        created_at: new Date(nowMs).toISOString(),
        expires_at: lifetimeMs === undefined ? null : new Date(nowMs + lifetimeMs).toISOString(),
      },
    ];
  });
  process.stdout.write(`${secret}\n`);
  process.stderr.write('kreplay: this is the only time that the secret is shown: keep it, in KREPLAY_TOKEN for one\n');
}

const COLUMNS: readonly TextColumn<StoredToken>[] = [
  { heading: 'NAME', cell: ({ name }) => name },
  { heading: 'SCOPES', cell: ({ scopes }) => scopes.join(' ') },
  { heading: 'CREATED', cell: ({ created_at }) => created_at },
  { heading: 'EXPIRES', cell: ({ expires_at }) => expires_at ?? 'never' },
  { heading: '', cell: (token) => (isExpired(token) ? 'expired' : '') },
];

function isExpired({ expires_at }: StoredToken): boolean {
  return expires_at !== null && Date.parse(expires_at) <= Date.now();
}

function listTokens({ tokens: path, output }: { tokens: string; output: 'table' | 'json' }): void {
  const tokens = viewTokenFile(path);
  const shown = tokens.map(({ sha256: _hash, ...told }, i) => ({ ...told, expired: isExpired(tokens[i]!) }));
  process.stdout.write(
    output === 'table' ? createTextTable(COLUMNS).lines(tokens) : `${stringify({ tokens: shown })}\n`,
  );
}

function revokeToken(name: string, { tokens: path }: { tokens: string }): void {
  changeTokenFile(path, (tokens) => {
    if (!tokens.some((token) => token.name === name))
      throw new CommandError(`there is no token of this name in ${path}`);
    return tokens.filter((token) => token.name !== name);
  });
  process.stdout.write(`${name} is revoked\n`);
}

function parseTokenName(value: string): string {
  if (isTokenName(value)) return value;
  throw new InvalidArgumentError(`must be ${NAME_RULE}`);
}

function collectScopes(value: string, before: string[] = []): string[] {
  const given = collectWords(value, before);
  if (given.every((scope) => (SCOPES as readonly string[]).includes(scope))) return given;
  throw new InvalidArgumentError(`known are: ${SCOPES.join(', ')}`);
}

/** Maximum lifetime of a token: 100 years. For longer use, there are tokens that never expire. */
const LIFETIME_MS_MAX = 100 * 365 * 86_400_000;

function parseLifetimeMs(value: string): number {
  const ms = Number(duration(value) / 1_000_000n);
  if (ms > 0 && ms <= LIFETIME_MS_MAX) return ms;
  throw new InvalidArgumentError('must be a duration above 0 with its unit, such as 12h or 30d, and at most 100 years');
}
