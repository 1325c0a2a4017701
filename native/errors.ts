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
 * The kernel or libbpf refused. Misuse of this package throws a plain Error, TypeError or RangeError instead, with a
 * `code` that starts with `ERR_` (README.md lists them). Compare `code`, not the class: a test runner may load
 * this module more than once.
 */
export class BpfError extends Error {
  override readonly name = 'BpfError';
  /** 'EPERM', 'EINVAL', ...; for libbpf's own failures 'ERR_BPF_FORMAT', 'ERR_BPF_RELOC', ... */
  readonly code: string;
  /** The positive errno value; from 4000 for libbpf's own. */
  readonly errno: number;
  /** The libbpf function that failed. */
  readonly syscall: string;
  /** The BPF program that it happened to, if it was one. */
  declare readonly program?: string;
  /** The end (at most 64 KiB) of what the verifier said, if it was the verifier. */
  declare readonly verifierLog?: string;
  /** The end (at most 16 KiB) of what libbpf itself said. */
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

/** Runs a call into the addon; what the kernel refused comes out as a BpfError. */
export function refusing<T>(call: () => T): T {
  try {
    return call();
  } catch (error) {
    throw isRefusal(error) ? new BpfError(error) : error;
  }
}

function isRefusal(error: unknown): error is Refusal {
  return typeof error === 'object' && error !== null && 'syscall' in error;
}

/** An error of misuse, worded and coded as the addon does it. */
export function misuse(ErrorClass: new (message: string) => Error, code: string, message: string): Error {
  return Object.assign(new ErrorClass(message), { code });
}
