interface Refusal {
  message: string;
  code: string;
  errno: number;
  syscall: string;
  program?: string;
  verifierLog?: string;
  log?: string;
}

/**
 * The error if the kernel or libbpf refuses a request. Misuse of this package throws a plain Error, TypeError or
 * RangeError instead, with a `code` that starts with `ERR_` (README.md lists them). Compare `code`, not the class: a
 * test runner may load this module more than once.
 */
export class BpfError extends Error {
  override readonly name = 'BpfError';
  /**
   * The name of the errno value, such as 'EPERM' or 'EINVAL'; for libbpf's own failures, 'ERR_BPF_FORMAT',
   * 'ERR_BPF_RELOC', ...
   */
  readonly code: string;
  /** The positive errno value; libbpf's own errors start at 4000. */
  readonly errno: number;
  /** The libbpf function that failed. */
  readonly syscall: string;
  /** The BPF program that failed, if the error concerns one. */
  declare readonly program?: string;
  /** The end (at most 64 KiB) of the verifier's log, if the verifier refused the program. */
  declare readonly verifierLog?: string;
  /** The end (at most 16 KiB) of libbpf's own messages. */
  declare readonly log?: string;

  /** @internal */
  constructor(refusal: Refusal) {
    super(refusal.message);
    this.code = refusal.code;
    this.errno = refusal.errno;
    this.syscall = refusal.syscall;
    if (refusal.program !== undefined) this.program = refusal.program;
    if (refusal.verifierLog !== undefined) this.verifierLog = refusal.verifierLog;
    if (refusal.log !== undefined) this.log = refusal.log;
  }
}

/** Runs a call into the addon and converts a refusal by the kernel or libbpf into a BpfError. */
export function runWithBpfErrors<T>(call: () => T): T {
  try {
    return call();
  } catch (error) {
    throw isRefusal(error) ? new BpfError(error) : error;
  }
}

function isRefusal(error: unknown): error is Refusal {
  return typeof error === 'object' && error !== null && 'syscall' in error;
}

/** Creates an error for misuse of this package, in the same form as the addon's errors. */
export function createMisuseError(ErrorClass: new (message: string) => Error, code: string, message: string): Error {
  return Object.assign(new ErrorClass(message), { code });
}
