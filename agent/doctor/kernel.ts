/** Checks which kernel this is, and whether it has what the programs need. */
import { existsSync, readlinkSync } from 'node:fs';
import { release } from 'node:os';
import { BpfError } from 'libbpf-ts';
import { CAPTURE_CAPABILITIES, missingCapabilities } from '../capture/capabilities.ts';
import { BTF, ROOT_PID_NAMESPACE, shiftedClocks } from '../capture/probes.ts';
import { missingFeatures, wrongTracepoints } from '../capture/requirements.ts';
import { REQUIRED_TRACEPOINTS } from '../capture/tracepoints.ts';
import type { Check } from './check.ts';

export function kernelChecks(): Check[] {
  const hasBtf = existsSync(BTF);
  return [machine(), pidNamespace(), timeNamespace(), btf(hasBtf), features(hasBtf), tracepoints(hasBtf)];
}

function machine(): Check {
  const isKnown = process.platform === 'linux' && process.arch === 'x64';
  return {
    name: 'kernel',
    state: isKnown ? 'ok' : 'failed',
    text: `${release()}, ${process.arch}`,
    ...(!isKnown && { advice: 'kreplay records Linux on x86-64' }),
  };
}

function pidNamespace(): Check {
  const isRoot = readlinkSync('/proc/self/ns/pid') === ROOT_PID_NAMESPACE;
  return {
    name: 'pid namespace',
    state: isRoot ? 'ok' : 'failed',
    text: isRoot ? "the host's" : 'one of its own: processes have other numbers here than the kernel reports',
    ...(!isRoot && { advice: "run it in the host's: docker run --pid=host" }),
  };
}

function timeNamespace(): Check {
  const clocks = shiftedClocks();
  const isShifted = clocks.length > 0;
  return {
    name: 'time namespace',
    state: isShifted ? 'failed' : 'ok',
    text: isShifted ? `one of its own: ${clocks.join(' and ')} differ from the kernel's` : "the host's clocks",
    ...(isShifted && { advice: "run it with the host's clocks: without unshare --time" }),
  };
}

function btf(hasBtf: boolean): Check {
  return {
    name: 'BTF',
    state: hasBtf ? 'ok' : 'failed',
    text: hasBtf ? BTF : `${BTF} is missing`,
    ...(!hasBtf && { advice: 'boot a kernel built with CONFIG_DEBUG_INFO_BTF=y' }),
  };
}

const NO_BTF = 'unknown without BTF';
const OTHER_KERNEL = 'boot Linux 5.15 or later';

function features(hasBtf: boolean): Check {
  const name = 'features';
  if (!hasBtf) return { name, state: 'unknown', text: NO_BTF };
  if (missingCapabilities(CAPTURE_CAPABILITIES).length > 0) {
    return { name, state: 'unknown', text: `unknown without ${CAPTURE_CAPABILITIES.join(' and ')}` };
  }
  try {
    const missing = missingFeatures();
    if (missing.length === 0) return { name, state: 'ok', text: 'every map, helper and instruction is there' };
    const text = `missing: ${missing.join(', ')}`;
    return { name, state: 'failed', text, advice: OTHER_KERNEL, facts: { missing } };
  } catch (error) {
    if (!(error instanceof BpfError)) throw error;
    return { name, state: 'unknown', text: `unknown: the kernel returned ${error.code}` };
  }
}

function tracepoints(hasBtf: boolean): Check {
  const name = 'tracepoints';
  if (!hasBtf) return { name, state: 'unknown', text: NO_BTF };
  const wrong = wrongTracepoints();
  const count = REQUIRED_TRACEPOINTS.length;
  if (wrong.length === 0)
    return { name, state: 'ok', text: `all ${count} are there, with the arguments that are read` };
  return { name, state: 'failed', text: wrong.join(', '), advice: OTHER_KERNEL, facts: { wrong } };
}
