/** `kreplay doctor`: whether this host can be recorded, and how owners are learned here. */
import { existsSync, readFileSync } from 'node:fs';
import { release } from 'node:os';
import { Command } from 'commander';
import { type CgroupSource, findCgroups } from './attribution/cgroups.ts';
import { LAYERS, type LayerState, layerStates } from './capture/layers.ts';
import { BTF, tryPrograms } from './capture/probes.ts';
import { AgentError } from './errors.ts';

interface Check {
  name: string;
  ok: boolean;
  /** What was found, or what to do. */
  text: string;
}

interface Diagnosis {
  ok: boolean;
  checks: Check[];
  cgroups: CgroupSource;
  layers: LayerState[];
}

/** capabilities(7), include/uapi/linux/capability.h */
const CAPABILITIES = { CAP_PERFMON: 38n, CAP_BPF: 39n } as const;

export function doctorCommand(): Command {
  return new Command('doctor')
    .description('say whether this host can be recorded, and how the owner of an event is learned here')
    .option('--json', 'as JSON, for programs', false)
    .action(({ json }: { json: boolean }) => {
      const diagnosis = diagnose();
      process.stdout.write(json ? `${JSON.stringify(diagnosis, null, 2)}\n` : asText(diagnosis));
      if (!diagnosis.ok) process.exitCode = 1;
    });
}

function diagnose(): Diagnosis {
  const cgroups = findCgroups();
  const hasBtf = existsSync(BTF);
  const layers = hasBtf ? layerStates([], cgroups.hierarchy) : [];
  const checks = [
    {
      name: 'kernel',
      ok: process.platform === 'linux' && process.arch === 'x64',
      text: `${release()}, ${process.arch}`,
    },
    {
      name: 'BTF',
      ok: hasBtf,
      text: hasBtf ? BTF : `${BTF} is missing: boot a kernel built with CONFIG_DEBUG_INFO_BTF=y`,
    },
    privileges(),
    programs(layers),
  ];
  return { ok: checks.every(({ ok }) => ok), checks, cgroups, layers };
}

function privileges(): Check {
  const [, effective = '0'] = /^CapEff:\s*([0-9a-f]+)$/m.exec(readFileSync('/proc/self/status', 'utf8')) ?? [];
  const missing = Object.entries(CAPABILITIES).filter(([, bit]) => !(BigInt(`0x${effective}`) & (1n << bit)));
  const names = missing.map(([name]) => name).join(' and ');
  const text = names ? `${names} missing: run as root` : Object.keys(CAPABILITIES).join(', ');
  return { name: 'privileges', ok: missing.length === 0, text };
}

function programs(layers: readonly LayerState[]): Check {
  try {
    tryPrograms(layers);
    return { name: 'programs', ok: true, text: 'load on this kernel' };
  } catch (error) {
    if (!(error instanceof AgentError)) throw error;
    return { name: 'programs', ok: false, text: error.message };
  }
}

function asText({ ok, checks, cgroups, layers }: Diagnosis): string {
  const rows = [
    ...checks.map((check) => [check.ok ? 'ok' : 'NO', check.name, check.text]),
    ['', 'cgroups', `${cgroups.hierarchy.replace('_', ', ')}, ${cgroups.root}`],
    ...layers.map(({ name, on, reason }) => [
      on ? 'on' : 'off',
      name,
      reason ? `${LAYERS[name]}: ${reason}` : LAYERS[name],
    ]),
  ];
  const width = Math.max(...rows.map(([, name]) => name!.length));
  const lines = rows.map(([state, name, text]) => `${state!.padEnd(4)}${name!.padEnd(width + 2)}${text}`);
  return `${[...lines, ok ? 'This host can be recorded: kreplay up' : 'This host can not be recorded as it is.'].join('\n')}\n`;
}
