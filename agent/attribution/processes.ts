/** Determines which service each process belongs to, and whether the process is one of the recorder's own. */
import { readFileSync, readlinkSync, statSync } from 'node:fs';
import { basename } from 'node:path';
import type { Cgroups } from './cgroups.ts';
import { isSameProgram, isStillThere, type RunningProgram } from './proc_program.ts';
import type { Program, Programs } from './programs.ts';
import { createReferenceTable } from './reference_table.ts';
import { findServiceByRule, type ServiceRule } from './service_name/rules.ts';
import { chooseServiceName, type ProcessFacts } from './service_name/service_name.ts';

const PROCESSES_MAX = 1 << 15;
const UNKNOWN_SERVICE = 'unknown';

export interface ProcessDefinition {
  process_id: number;
  program_id: number;
  start_ns: number;
  cgroup_id: number;
  pid: number;
  uid: number;
  kernel_thread: number;
  exec_id: number;
  stack_start: number;
  /** Number of the user or cgroup that caused the definition. */
  share: number;
}

export interface Process {
  id: number;
  service: string;
  /** The recording's id of the service name. An id below `oldestIds.name` is not valid: see internService(). */
  serviceId: number;
  /** Whether the process is one of the recorder's own (agent or daemon), whose events are not recorded. */
  own: boolean;
  isKernelThread: boolean;
  /**
   * Whether the filter accepts the process's service and cgroup. If an event's label names a service, that service
   * decides instead.
   */
  isWanted: boolean;
  /** Whether the filter's lists of pids and commands accept the process. */
  isListed: boolean;
  cgroupPath: string | undefined;
  /** File name of the program, without its folder; empty if it is unknown. */
  executable: string;
  isNamedByRule: boolean;
  running: RunningProgram;
  /** Number of the user or cgroup that caused the definition: see current_share() of bpf/budget.bpf.h. */
  share: number;
}

export interface Processes {
  define(definition: ProcessDefinition): void;
  /** Applies the filter to all processes again, after the filter has changed. */
  reconsider(): void;
  /** Sets the service of a program that has started to publish a service name. */
  rename(program: RunningProgram, service: string): void;
  /** Returns the process. If its definition was lost, returns a process with an unknown service. */
  get(processId: number): Process;
  /**
   * Returns the recording's id of the process's service. The name is written to the recording with the first kept
   * event, so a process whose events are all filtered out leaves no name.
   */
  internService(process: Process): number;
}

export interface ProcessesOptions {
  programs: Pick<Programs, 'get'>;
  /** Reads a program from /proc if its definition was lost or is incomplete. */
  readProcessProgram(pid: number, running: RunningProgram): Program | undefined;
  cgroups: Cgroups;
  intern(serviceName: string): number;
  /** The smallest valid ids. A name with a smaller id must be interned again before it is written. */
  oldestIds: { readonly name: number };
  isOwn(program: RunningProgram, uid: number): boolean;
  /** Whether the events of a process are recorded; by default, they are. */
  wants?(process: { service: string; cgroupPath: string | undefined }): boolean;
  /** Whether a request may name the process as an owner of the request's data; by default, it may. */
  lists?(pid: number, executable: string): boolean;
  /** Called for a process whose events are not to be recorded. */
  onUnwanted?(processId: number): void;
  /** Called for a process whose events are recorded again, because its service name or the filter has changed. */
  onWantedAgain?(processId: number): void;
  /** Rules by which an operator names services; they take precedence over all other names. */
  rules?: readonly ServiceRule[] | undefined;
  /** Returns the service name that the program itself publishes. */
  findPublishedService?(program: RunningProgram): string | undefined;
  /** Called for every process except the kernel's threads, once its service is known. */
  onDefined?(program: RunningProgram, service: string, executable: string): void;
}

export function createProcesses(options: ProcessesOptions): Processes {
  const {
    programs,
    readProcessProgram,
    cgroups,
    intern,
    oldestIds,
    isOwn,
    wants,
    rules = [],
    findPublishedService,
    onDefined,
  } = options;
  const processes = createReferenceTable<Process>(PROCESSES_MAX);
  const unknown: Process = {
    id: 0,
    service: UNKNOWN_SERVICE,
    serviceId: 0,
    own: false,
    isKernelThread: false,
    isWanted: true,
    isListed: true,
    cgroupPath: undefined,
    executable: '',
    isNamedByRule: false,
    running: { pid: 0, startNs: 0, execId: 0, stackStart: 0 },
    share: 0,
  };

  function collectFacts(definition: ProcessDefinition, running: RunningProgram): ProcessFacts {
    const { program_id, cgroup_id, pid, kernel_thread } = definition;
    const isKernelThread = kernel_thread !== 0;
    const cgroupPath = cgroups.findPath(cgroup_id, pid);
    if (isKernelThread) return { isKernelThread, executable: '', args: [], environment: new Map(), cgroupPath };
    const atExec = programs.get(program_id);
    const program = atExec && !atExec.environmentCut ? atExec : (readProcessProgram(pid, running) ?? atExec);
    const { executable = '', args = [], environment = new Map() } = program ?? {};
    return { isKernelThread, executable, args, environment, cgroupPath };
  }

  function chooseService(facts: ProcessFacts, running: RunningProgram): string {
    const known = facts.isKernelThread
      ? undefined
      : (findServiceByRule(rules, facts) ?? findPublishedService?.(running));
    return known ?? chooseServiceName(facts).name;
  }

  function consider(process: Process): void {
    const wasWanted = process.isWanted;
    process.isWanted = wants?.(process) ?? true;
    process.isListed = options.lists?.(process.running.pid, process.executable) ?? true;
    if (process.isKernelThread) return;
    if (!process.isWanted) options.onUnwanted?.(process.id);
    else if (!wasWanted) options.onWantedAgain?.(process.id);
  }

  return {
    define(definition) {
      const { process_id, uid, kernel_thread } = definition;
      const running = toRunningProgram(definition);
      const facts = collectFacts(definition, running);
      const isKernelThread = kernel_thread !== 0;
      const service = chooseService(facts, running);
      const own = !isKernelThread && isOwn(running, uid);
      const { cgroupPath } = facts;
      const isNamedByRule = !isKernelThread && findServiceByRule(rules, facts) !== undefined;
      const process = {
        id: process_id,
        service,
        serviceId: 0,
        own,
        isKernelThread,
        // Keeps the previous value, so that consider() notices when an unwanted process becomes wanted.
        isWanted: processes.get(process_id)?.isWanted ?? true,
        isListed: true,
        cgroupPath,
        executable: facts.executable,
        isNamedByRule,
        running,
        share: definition.share,
      };
      consider(process);
      processes.set(process_id, process, definition.share);
      if (!isKernelThread) onDefined?.(running, service, facts.executable);
    },
    reconsider() {
      for (const process of processes.values()) consider(process);
    },
    rename(program, service) {
      for (const process of processes.values()) {
        if (process.isNamedByRule || !isSameProgram(process.running, program)) continue;
        process.service = service;
        process.serviceId = 0;
        consider(process);
      }
    },
    get(processId) {
      return processes.get(processId) ?? unknown;
    },
    internService(process) {
      if (process.serviceId < oldestIds.name) process.serviceId = intern(process.service);
      return process.serviceId;
    },
  };
}

function toRunningProgram({ pid, start_ns, exec_id, stack_start }: ProcessDefinition): RunningProgram {
  return { pid, startNs: start_ns, execId: exec_id, stackStart: stack_start };
}

/** Commands of kreplay whose events are not recorded, because they would only describe the recorder. */
const OWN_COMMANDS = new Set(['agent', 'daemon', 'up']);

/**
 * Returns a function that recognises the recorder's other processes: the same Node runs the same script, as root or as
 * the agent's user. Processes of other users do not count, so that no user can hide a program under this name. If the
 * process has ended and a later process has its pid, the later process is not recognised.
 */
export function createOwnProcessCheck(script: string, ownUid: number): ProcessesOptions['isOwn'] {
  const executable = statSync(process.execPath);
  return (program, uid) => {
    const { pid } = program;
    if (uid !== 0 && uid !== ownUid) return false;
    try {
      const running = statSync(`/proc/${pid}/exe`);
      if (running.ino !== executable.ino || running.dev !== executable.dev) return false;
      const args = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
      const at = args.findIndex((argument) => basename(argument) === basename(script));
      if (at < 0 || !OWN_COMMANDS.has(args[at + 1] ?? '')) return false;
      // If an argument before the script's name is not an option of Node, Node runs another script.
      if (!args.slice(1, at).every((argument) => argument.startsWith('-'))) return false;
      const path = args[at]!.startsWith('/') ? args[at]! : `${readlinkSync(`/proc/${pid}/cwd`)}/${args[at]}`;
      // Checked last, so that everything above was read from this process. A forked child before its exec counts, too.
      return statSync(path).ino === statSync(script).ino && isStillThere(program);
    } catch {
      return false; // The process has ended. The recorder's own processes are not short-lived.
    }
  };
}
