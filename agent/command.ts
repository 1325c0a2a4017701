/** `kreplay agent`: records this host's events. */
import { readFileSync } from 'node:fs';
import { Command } from 'commander';
import { runAgent } from './agent.ts';
import { cleanName } from './attribution/service_name/clean_name.ts';
import { RULE_PATTERNS, type ServiceRule } from './attribution/service_name/rules.ts';
import { EVENT_RINGS_MAX } from './capture/event_rings.ts';
import { describeLimits, LAYERS, type LayerName, type LayerState } from './capture/layers.ts';
import { EVENT_BYTES_DEFAULT } from './capture/probes.ts';
import { addConfigOption, attachConfiguration, type Configuration, DATA_DEFAULT } from './config/configuration.ts';
import { addHelpEnd, EXIT_CODES } from './config/help.ts';
import { listDeclared, Setting } from './config/setting.ts';
import { createChoiceSchema, createTextSchema, integer } from './config/values.ts';
import { addFilterOptions, type FilterFlags, parseFilterFlags } from './filter/options.ts';
import { addLogOptions, createLog, type LogFlags } from './output/log.ts';
import { createEndingSignal } from './process/ending.ts';
import { ConfigError, HOST_UNFIT_EXIT_CODE } from './process/errors.ts';
import { createServiceManager } from './process/service_manager.ts';
import { findUsers } from './process/users.ts';
import { addRetentionOptions, type RetentionFlags } from './retention_options.ts';

interface AgentFlags extends RetentionFlags, FilterFlags, LogFlags {
  data: string;
  node?: string;
  ringSize: number;
  rings?: number;
  trustServices: boolean;
  without?: LayerName[];
  httpServices?: string[];
  serviceRules?: string;
  pinsBy?: string[];
}

const RING_MIB_DEFAULT = EVENT_BYTES_DEFAULT >> 20;
/** Maximum size of the rings, in MiB. The kernel accepts only powers of two below 4 GiB. */
const RING_MIB_MAX = 2048;

const RING_MEBIBYTES = integer(
  createTextSchema((text) => {
    const size = Number(text);
    return Number.isInteger(Math.log2(size)) && size >= 1 && size <= RING_MIB_MAX ? size : undefined;
  }, `It must be a power of two from 1 to ${RING_MIB_MAX}.`),
);

const RING_COUNT = integer(
  createTextSchema((text) => {
    const count = Number(text);
    return Number.isInteger(count) && count >= 1 && count <= EVENT_RINGS_MAX ? count : undefined;
  }, `It must be a number from 1 to ${EVENT_RINGS_MAX}.`),
);

export function createAgentCommand(): Command {
  const command = new Command('agent').description(
    'record the events of this host (as root, or with CAP_BPF and CAP_PERFMON)',
  );
  const configuration = attachConfiguration(command);
  addConfigOption(addAgentCommandOptions(command));
  configuration.declare('agent', listDeclared(command));
  command.action((flags: AgentFlags) => record(flags, configuration));
  return addHelpEnd(command, {
    examples: [
      'kreplay agent --data /var/lib/kreplay',
      'kreplay agent --only-labelled --retain-bytes 20GiB --retain-age 7d',
      'kreplay agent --service shop --event-type sys_sync block_io --min-duration 1ms',
    ],
    exitCodes: {
      ...EXIT_CODES,
      0: 'ended by Ctrl-C or SIGTERM',
      [HOST_UNFIT_EXIT_CODE]: 'this host cannot be recorded, or not by this user: run `kreplay doctor`',
    },
  });
}

function addAgentCommandOptions(command: Command): Command {
  return addLogOptions(addAgentOptions(command));
}

/** The agent's options, and their checks for `kreplay config`. */
export const AGENT_SECTION = {
  declare: addAgentCommandOptions,
  check(flags: Record<string, unknown>): undefined {
    parseFilterFlags(flags as FilterFlags);
    if (typeof flags.serviceRules === 'string') readServiceRules(flags.serviceRules);
  },
};

export function addAgentOptions(command: Command): Command {
  command
    .addOption(new Setting('--data <folder>', 'folder to record into').default(DATA_DEFAULT).shared())
    .addOption(new Setting('--node <name>', 'name of this host (default: its host name)'));
  addRingSizeOption(command)
    .addOption(new Setting('--rings <number>', 'number of event rings (default: one per cache)').takes(RING_COUNT))
    .addOption(
      new Setting(
        '--trust-services',
        'accept service names in marker lines of any user, not only of root and its own',
      ).default(false),
    )
    .addOption(
      new Setting(
        '--service-rules <path>',
        'rules in JSON that name services by executable, arguments or cgroup: see agent/docs/label.md',
      ),
    )
    .addOption(
      new Setting(
        '--http-services <names...>',
        "services whose HTTP/1 requests are searched for a traceparent, '*' for all: agent/docs/label.md",
      ),
    )
    .addOption(new Setting('--pins-by <users...>', 'other users for whom it pins, by name or number'))
    .addOption(
      new Setting('--without <layers...>', 'attribution layers to switch off').takes(
        createChoiceSchema(Object.keys(LAYERS)),
      ),
    );
  return addFilterOptions(addRetentionOptions(command));
}

export function addRingSizeOption(command: Command): Command {
  return command.addOption(
    new Setting('--ring-size <MiB>', 'size of all event rings together')
      .takes(RING_MEBIBYTES)
      .default(RING_MIB_DEFAULT),
  );
}

async function record(flags: AgentFlags, configuration: Configuration): Promise<void> {
  const log = createLog('kreplay-agent', flags, process.stderr);
  const { data, node, ringSize, rings, trustServices, without, httpServices, serviceRules, pinsBy = [] } = flags;
  const totals = await runAgent({
    dataFolder: data,
    node,
    eventBytes: ringSize * 1024 * 1024,
    ringCount: rings,
    trustAllServices: trustServices,
    without,
    httpServices,
    serviceRules: serviceRules === undefined ? undefined : readServiceRules(serviceRules),
    filter: parseFilterFlags(flags),
    reread() {
      const now = configuration.reread<AgentFlags>(log);
      const filter = parseFilterFlags(now);
      log.level = now.logLevel;
      return filter;
    },
    retention: flags,
    pinUsers: findUsers(pinsBy, (message) => log.warn(message)),
    signal: createEndingSignal(),
    onReady({ attached, layers, recording }) {
      process.stdout.write(`kreplay agent: attached ${attached.join(', ')}\n`);
      process.stdout.write(`kreplay agent: attribution by ${layers.map(describeLayer).join(', ')}\n`);
      process.stdout.write(`kreplay agent: recording to ${recording}\n`);
      process.send?.('ready');
    },
    manager: createServiceManager(),
    log,
  });
  const lost = totals.lost > 0 ? `, ${totals.lost} lost` : '';
  const malformed = totals.badMarkerFields > 0 ? `, ${totals.badMarkerFields} malformed marker fields left out` : '';
  process.stdout.write(`kreplay agent: recorded ${totals.events} events${lost}${malformed}\n`);
}

function describeLayer(layer: LayerState): string {
  if (!layer.on) return `${layer.name} off (${layer.reason})`;
  const limits = describeLimits(layer);
  return limits.length > 0 ? `${layer.name} (${limits.join('; ')})` : layer.name;
}

/* Reads `--service-rules`, a file of rules that name services. */

/**
 * Reads a list such as `[{"service": "shop", "executable": "^java$", "arguments": "shop\\.jar"}]`. Throws a ConfigError.
 */
export function readServiceRules(path: string): ServiceRule[] {
  let rules: unknown;
  try {
    rules = JSON.parse(readFileSync(path, 'utf8'));
  } catch (error) {
    throw new ConfigError(`the service rules ${path} cannot be read: ${(error as Error).message}`);
  }
  if (!Array.isArray(rules)) throw new ConfigError(`${path} holds no list of rules`);
  return rules.map((rule: unknown, i) => {
    const createRuleError = (text: string) => new ConfigError(`${path}, rule ${i + 1}: ${text}`);
    if (typeof rule !== 'object' || rule === null)
      throw createRuleError('give an object such as {"service": "shop", "executable": "^java$"}');
    return parseRule(rule as Record<string, unknown>, createRuleError);
  });
}

function parseRule(rule: Record<string, unknown>, wrong: (text: string) => ConfigError): ServiceRule {
  const { service, ...patterns } = rule;
  if (typeof service !== 'string' || cleanName(service) === '') throw wrong('its service is missing');
  const parsed: ServiceRule = { service: cleanName(service) };
  for (const [name, pattern] of Object.entries(patterns)) {
    const known = RULE_PATTERNS.find((each) => each === name);
    if (!known) throw wrong(`${name} is none of ${RULE_PATTERNS.join(', ')}`);
    parsed[known] = parseRegExp(pattern, (text) => wrong(`${name} ${text}`));
  }
  if (Object.keys(patterns).length === 0) throw wrong(`give one of ${RULE_PATTERNS.join(', ')}`);
  return parsed;
}

function parseRegExp(pattern: unknown, wrong: (text: string) => ConfigError): RegExp {
  if (typeof pattern !== 'string') throw wrong('is not a text');
  try {
    return new RegExp(pattern);
  } catch (error) {
    throw wrong((error as Error).message);
  }
}
