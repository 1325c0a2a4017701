/** `kreplay watch`: keeps slow and failed transactions before retention removes them. */
import { join } from 'node:path';
import { Command } from 'commander';
import type { Logger } from 'pino';
import { parseBytes } from '../../agent/config/bytes.ts';
import { addConfigOption, attachConfiguration, DATA_DEFAULT } from '../../agent/config/configuration.ts';
import { addHelpEnd, EXIT_CODES } from '../../agent/config/help.ts';
import { listDeclared, Setting } from '../../agent/config/setting.ts';
import { createTextSchema, DURATION, POSITIVE_INTEGER } from '../../agent/config/values.ts';
import { addLogOptions, createLog, type LogFlags } from '../../agent/output/log.ts';
import { createEndingSignal } from '../../agent/process/ending.ts';
import { ConfigError } from '../../agent/process/errors.ts';
import { createServiceManager } from '../../agent/process/service_manager.ts';
import { BEFORE_NS_MAX } from '../contract/pin_request.ts';
import { createBearerCheck } from '../http/access/bearer.ts';
import { describeProtection, findMissingProtection } from '../http/access/options.ts';
import { readTls } from '../http/access/tls.ts';
import { openTokens } from '../http/access/tokens.ts';
import { type ListenAddress, parseListen } from '../http/listen_address.ts';
import { createCounters } from '../metrics/watch_counters.ts';
import { close, listen } from '../server/server.ts';
import { openRecordingStore } from '../store/embedded/recording_store.ts';
import { createAlertTaker } from './alerts.ts';
import { buildWatchApp } from './app.ts';
import { RULES_DEFAULT, readRules, type WatchRules } from './rules.ts';
import { openWatchState } from './state.ts';
import { type WatcherOptions, watch } from './watcher.ts';
import { type OpenWebhook, openWebhook } from './webhook.ts';

export interface WatchFlags extends LogFlags {
  data: string;
  rules?: string;
  state: string;
  bundles?: string;
  bundleBytes: number;
  bundleCount: number;
  quiet: bigint;
  before: bigint;
  matchesPerMinute: number;
  queue: number;
  giveUp: bigint;
  listen?: ListenAddress;
  tokens?: string;
  tlsCert?: string;
  tlsKey?: string;
  alertTransactions: number;
  alertLookback: bigint;
}

const RECORDING_FILE = 'recording.kreplay';
const STATE_DEFAULT = './watch';
const BUNDLES_FOLDER = 'bundles';
const BUNDLE_BYTES_MIN = 1 << 20;
const QUIET_NS_MAX = 60_000_000_000n;
const DAY_NS = 86_400_000_000_000n;
const GIVE_UP_NS_MAX = 30n * DAY_NS;
const ALERT_TRANSACTIONS_MAX = 100;
const MATCHES_MAX = 10_000;
const BUNDLES_MAX = 100_000;
const QUEUE_MAX = 100_000;

const LISTEN_ADDRESS = createTextSchema(parseListen, 'must be HOST:PORT, [IPV6]:PORT or unix:/path');
const SIZE = createTextSchema(parseBytes, 'must be a size, such as 5GB').refine(
  (bytes) => bytes >= BUNDLE_BYTES_MIN,
  'must be at least 1MiB',
);

const atMost = (max: number) => POSITIVE_INTEGER.refine((count) => count <= max, `must be at most ${max}`);
const durationUpTo = (maxNs: bigint, max: string) => DURATION.refine((ns) => ns <= maxNs, `must be at most ${max}`);

function addWatchOptions(command: Command): Command {
  command
    .addOption(new Setting('--data <folder>', 'folder that the agent records into').default(DATA_DEFAULT).shared())
    .addOption(new Setting('--rules <file>', `TOML file with the rules and the webhook (default: ${RULES_DEFAULT})`))
    .addOption(
      new Setting('--state <folder>', 'folder for how far it has come and what is still to be done').default(
        STATE_DEFAULT,
      ),
    )
    .addOption(new Setting('--bundles <folder>', `folder for bundles (default: ${BUNDLES_FOLDER} in --state)`))
    .addOption(
      new Setting('--bundle-bytes <size>', 'size of all bundles: the oldest ones make room')
        .takes(SIZE)
        .defaultText('5GB'),
    )
    .addOption(
      new Setting('--bundle-count <count>', 'number of bundles, likewise')
        .takes(atMost(BUNDLES_MAX))
        .defaultText('1000'),
    )
    .addOption(
      new Setting(
        '--quiet <duration>',
        'write a bundle when its transaction has had no event for so long; a minute at most',
      )
        .takes(durationUpTo(QUIET_NS_MAX, '1m'))
        .defaultText('5s'),
    )
    .addOption(
      new Setting('--before <duration>', 'a pin keeps what happened this long before the transaction, too')
        .takes(durationUpTo(BEFORE_NS_MAX, '24h'))
        .defaultText('10s'),
    )
    .addOption(
      new Setting(
        '--matches-per-minute <count>',
        'matches of rules that are kept in a minute; others are counted and dropped',
      )
        .takes(atMost(MATCHES_MAX))
        .defaultText('60'),
    )
    .addOption(
      new Setting('--queue <count>', 'deliveries that wait for the webhook; further matches are kept but not told')
        .takes(atMost(QUEUE_MAX))
        .defaultText('10000'),
    )
    .addOption(
      new Setting('--give-up <duration>', 'a delivery or a bundle that fails for so long is given up')
        .takes(durationUpTo(GIVE_UP_NS_MAX, '30d'))
        .defaultText('24h'),
    )
    .addOption(
      new Setting(
        '--listen <address>',
        'take alerts and serve metrics at HOST:PORT or unix:/path (default: nowhere)',
      ).takes(LISTEN_ADDRESS),
    )
    .addOption(new Setting('--tokens <file>', 'file with the tokens that clients must present: see `kreplay token`'))
    .addOption(new Setting('--tls-cert <file>', 'serve HTTPS with this certificate chain (PEM)'))
    .addOption(new Setting('--tls-key <file>', 'private key of the certificate (PEM)'))
    .addOption(
      new Setting('--alert-transactions <count>', 'slowest transactions that an alert keeps')
        .takes(atMost(ALERT_TRANSACTIONS_MAX))
        .defaultText('3'),
    )
    .addOption(
      new Setting('--alert-lookback <duration>', 'how long before an alert its transactions may have begun')
        .takes(durationUpTo(DAY_NS, '24h'))
        .defaultText('10m'),
    );
  return addLogOptions(command);
}

/** Returns why settings contradict each other; undefined if they do not. */
function findProblem({ tlsCert, tlsKey, listen: address, tokens }: Partial<WatchFlags>): string | undefined {
  if ((tlsCert === undefined) !== (tlsKey === undefined)) return '--tls-cert and --tls-key go together';
  if (address === undefined && (tokens !== undefined || tlsCert !== undefined))
    return '--tokens and --tls-cert need --listen';
  return undefined;
}

/** Returns why the watcher must not listen on its address; undefined if it may, or has no address. */
function findListenProblem(flags: Partial<WatchFlags>): string | undefined {
  return flags.listen && findMissingProtection(flags.listen, describeProtection(flags));
}

/** Throws a ConfigError for wrong rules, or a webhook whose files cannot be used. */
function openRules(path: string | undefined): { rules: WatchRules['rules']; hook: OpenWebhook | undefined } {
  const { rules, webhook } = readRules(path);
  return { rules, hook: webhook && openWebhook(webhook) };
}

/** Checks what `openRules` needs. Only the service has its credentials, so their secret is checked when it starts. */
function checkRules(path: string | undefined): void {
  const { webhook } = readRules(path);
  if (!webhook) return;
  const { secretFile, ...others } = webhook;
  openWebhook(secretFile?.includes('/') ? webhook : others);
}

/** Used by `kreplay config`. */
export const WATCH_SECTION = {
  declare: addWatchOptions,
  check(flags: Record<string, unknown>): string | undefined {
    const given = flags as Partial<WatchFlags>;
    const problem = findProblem(given) ?? findListenProblem(given);
    if (problem === undefined) checkRules(given.rules);
    return problem;
  },
};

const RULES_HELP = `
A rules file:
  [[rule]]
  name = "slow-orders"
  service = ["shop"]
  min-duration = "500ms"          # of the transaction
  # min-event-duration = "200ms"  # of one of its events
  # failed = true                 # one of its events failed; or error = ["ENOSPC"]
  cool-down = "5m"                # tell no more for this rule and service

  [webhook]
  url = "https://hooks.example/kreplay"
  secret-file = "/etc/kreplay/webhook.secret"
`;

export function createWatchCommand(): Command {
  const command = new Command('watch')
    .summary('keep slow and failed transactions')
    .description(
      'keep slow and failed transactions: pin each one before retention removes it, write its bundle, and call a webhook',
    );
  const configuration = attachConfiguration(command);
  addConfigOption(addWatchOptions(command));
  configuration.declare('watch', listDeclared(command));
  command.action(run);
  return addHelpEnd(command, {
    notes: RULES_HELP,
    examples: [
      'kreplay watch --rules watch.toml',
      'kreplay watch --rules watch.toml --data ./data --state ./watch --listen 127.0.0.1:7468',
    ],
    exitCodes: { ...EXIT_CODES, 0: 'ended by Ctrl-C or SIGTERM' },
  });
}

async function run(flags: WatchFlags, command: Command): Promise<void> {
  const problem = findProblem(flags);
  if (problem) command.error(`error: ${problem}`);
  const listenProblem = findListenProblem(flags);
  if (listenProblem !== undefined) throw new ConfigError(listenProblem);
  const { rules, hook } = openRules(flags.rules);
  if (rules.length === 0 && flags.listen === undefined)
    throw new ConfigError(
      `nothing to watch for: write rules into ${flags.rules ?? RULES_DEFAULT}, or take alerts with --listen; \`kreplay watch --help\` has an example`,
    );
  const log = createLog('kreplay-watch', flags, process.stderr);
  const signal = createEndingSignal();
  const manager = createServiceManager();
  const state = openWatchState(flags.state);
  const recording = join(flags.data, RECORDING_FILE);
  // Only the agent's own recording is opened: imported files would be checked first, which takes long and delays pins.
  const recordings = openRecordingStore(flags.data, [], undefined, { isLiveOnly: true });
  const counters = createCounters(rules.map(({ name }) => name));
  const watcher: WatcherOptions = {
    recordings,
    data: flags.data,
    rules,
    state,
    webhook: hook,
    beforeNs: flags.before,
    quietMs: Number(flags.quiet / 1_000_000n),
    folder: flags.bundles ?? join(flags.state, BUNDLES_FOLDER),
    bundleBytesMax: flags.bundleBytes,
    bundlesMax: flags.bundleCount,
    perMinuteMax: flags.matchesPerMinute,
    queueMax: flags.queue,
    giveUpMs: Number(flags.giveUp / 1_000_000n),
    counters,
    onWatching() {
      process.stdout.write(`kreplay watch: watching ${recording}\n`);
      manager.reportReady(`watching ${recording}`);
    },
    log,
    signal,
  };
  const stopPinging = manager.watch(() => true);
  let stop = async () => {};
  try {
    stop = await serve(flags, watcher);
    await watch(watcher);
  } finally {
    manager.reportStopping();
    await stop();
    stopPinging();
    recordings.close();
    state.close();
  }
}

/** Starts the HTTP server if `--listen` is given. Returns a function that closes the server. */
async function serve(flags: WatchFlags, watcher: WatcherOptions): Promise<() => Promise<void>> {
  const { listen: address, tokens: path, tlsCert: cert, tlsKey: key } = flags;
  if (!address) return async () => {};
  const { log, state, counters } = watcher;
  const bearer = path === undefined ? undefined : openBearer(path, log);
  const takeAlerts = createAlertTaker(watcher, {
    transactionsMax: flags.alertTransactions,
    lookbackNs: flags.alertLookback,
  });
  const app = buildWatchApp({ allowed: bearer ? { bearer } : {}, takeAlerts, counters, readGauges: state.count, log });
  const tls = cert === undefined || key === undefined ? undefined : readTls({ cert, key, clientCa: undefined });
  const [server, url] = await listen(app, address, { tls, tokens: bearer !== undefined });
  process.stdout.write(`kreplay watch: takes alerts at ${url}/alerts\n`);
  return () => close(server);
}

function openBearer(path: string, log: Logger) {
  const tokens = openTokens({ path, nowMs: Date.now, log });
  return createBearerCheck({ tokens, nowMs: () => performance.now(), log });
}
