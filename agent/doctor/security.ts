/** Checks what this process may do, and what else may prevent it from recording. */
import { readFileSync } from 'node:fs';
import { CAPTURE_CAPABILITIES, missingCapabilities } from '../capture/capabilities.ts';
import type { Check } from './check.ts';

export function privileges(): Check {
  const missing = missingCapabilities(CAPTURE_CAPABILITIES);
  const name = 'privileges';
  if (missing.length === 0) return { name, state: 'ok', text: CAPTURE_CAPABILITIES.join(', ') };
  return {
    name,
    state: 'failed',
    text: `${missing.join(' and ')} missing`,
    advice: `run as root, or give it ${CAPTURE_CAPABILITIES.join(' and ')}`,
    facts: { missing },
  };
}

const LOCKDOWN = '/sys/kernel/security/lockdown';

/** kernel_lockdown(7). Of its two levels only `confidentiality` hides the kernel's memory from programs. */
export function lockdown(path = LOCKDOWN): Check {
  const name = 'lockdown';
  const level = /\[(\w+)\]/.exec(contentOf(path) ?? '')?.[1];
  if (level === undefined) return { name, state: 'ok', text: `unknown: there is no ${path}` };
  if (level !== 'confidentiality') return { name, state: 'ok', text: level };
  return {
    name,
    state: 'failed',
    text: 'confidentiality: no program may read kernel memory',
    advice: 'boot with lockdown=integrity, or none',
  };
}

/** These restrict processes without capabilities, and nothing that the agent does. */
const SYSCTLS = ['kernel.unprivileged_bpf_disabled', 'kernel.perf_event_paranoid'] as const;

export function sysctls(): Check {
  const values = SYSCTLS.map((name) => {
    const value = contentOf(`/proc/sys/${name.replaceAll('.', '/')}`)?.trim();
    return `${name}=${value ?? 'none'}`;
  });
  return { name: 'sysctl', state: 'ok', text: `${values.join(', ')}: no hindrance, whatever they are` };
}

function contentOf(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}
