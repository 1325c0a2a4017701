/**
 * Locates a thread-local variable in the threads of a process: at a fixed distance from the thread pointer, or in the
 * TLS block that the thread's vector (dtv) has for the module. Supports x86-64, where the blocks are below the thread
 * pointer.
 *
 * A program's distance is fixed when the program is linked. A library's distance is chosen by the dynamic linker, which
 * writes the distance into the slots of the library's relocations (Ulrich Drepper, ELF Handling For Thread-Local
 * Storage; Alexandre Oliva, Thread-Local Storage Descriptors for IA32 and AMD64/EM64T).
 */
import { type Elf, readI64, readU64, type TlsRelocationKind, type TlsSegment } from '../elf/elf.ts';

export type ThreadLocal =
  /** The variable is at `offset` from the thread pointer; `offset` is negative. */
  | { readonly mode: 'static'; readonly offset: number }
  /** The variable is at `offset` in the thread's TLS block for the module. A thread may not have the block yet. */
  | { readonly mode: 'dynamic'; readonly moduleId: number; readonly offset: number };

export type ThreadLocalAccess =
  | ThreadLocal
  /** The dynamic linker has not filled in the slot yet. */
  | 'not_bound'
  /** No slot of the module locates the variable. */
  | 'not_told';

/** Fills `into` with the process's memory at `address`; returns false if the memory is unreadable. */
export type ReadMemory = (address: number, into: Uint8Array) => boolean;

/** Upper bound of distances. It rejects values from slots that the dynamic linker has not filled in. */
const DISTANCE_MAX = 2 ** 31;
const MODULES_MAX = 2 ** 16;
const SLOTS_MAX = 64;

/**
 * Returns the distance from the thread pointer down to the start of the program's own TLS block; undefined if the
 * distance is too large.
 */
export function computeProgramBlockDistance({ address, memorySize, alignment }: TlsSegment): number | undefined {
  // If the segment's start is not aligned, the block starts at the same offset from an aligned address.
  const unit = Math.max(alignment, 1);
  const distance = memorySize + ((unit - ((address + memorySize) % unit)) % unit);
  return distance < DISTANCE_MAX ? distance : undefined;
}

/**
 * Reads the module's slots for the variable `name`. `own` is the variable's offset in this module's block; undefined if
 * the variable is in another module.
 */
export function readSlotAccess(
  elf: Elf,
  name: string,
  own: number | undefined,
  bias: number,
  read: ReadMemory,
): ThreadLocalAccess {
  let access: ThreadLocalAccess = 'not_told';
  let left = SLOTS_MAX;
  for (const { kind, address, symbol, addend } of elf.readTlsRelocations()) {
    if (symbol === undefined ? own === undefined : symbol !== name) continue;
    if (left-- === 0) break;
    access = readSlot(kind, bias + address, computeSlotMeaning(symbol, addend, own), read) ?? 'not_bound';
    if (access !== 'not_bound') break;
  }
  return access;
}

interface SlotMeaning {
  /** Offset in the module's block that the slot refers to; undefined if the file does not specify it. */
  blockOffset: number | undefined;
  /** Distance from the slot's target to the variable. */
  further: number;
}

/**
 * Interprets a slot, which refers to a symbol in any module or to the module's own block. The slot's value includes the
 * addend in both cases.
 */
function computeSlotMeaning(symbol: string | undefined, addend: number, own: number | undefined): SlotMeaning {
  if (symbol !== undefined) return { blockOffset: undefined, further: -addend };
  return { blockOffset: addend, further: own! - addend };
}

function readSlot(
  kind: TlsRelocationKind,
  address: number,
  meaning: SlotMeaning,
  read: ReadMemory,
): ThreadLocal | undefined {
  const slot = new DataView(new ArrayBuffer(16));
  if (!read(address, new Uint8Array(slot.buffer, 0, kind === 'offset' ? 8 : 16))) return undefined;
  if (kind === 'offset') return toStaticThreadLocal(readI64(slot, 0) + meaning.further);
  if (kind === 'module') return readDynamicThreadLocal(slot, meaning);
  const argument = readI64(slot, 8);
  if (argument < 0) return toStaticThreadLocal(argument + meaning.further);
  // Before the slot is bound, it may contain a pointer to the relocation, whose second word is no offset.
  if (!read(argument, new Uint8Array(slot.buffer))) return undefined;
  return meaning.blockOffset === undefined || readU64(slot, 8) === meaning.blockOffset
    ? readDynamicThreadLocal(slot, meaning)
    : undefined;
}

function toStaticThreadLocal(offset: number): ThreadLocal | undefined {
  return offset < 0 && offset > -DISTANCE_MAX ? { mode: 'static', offset } : undefined;
}

/**
 * Reads the module id and the offset in the module's block. If `blockOffset` is known, the second word may be unused.
 */
function readDynamicThreadLocal(pair: DataView, { blockOffset, further }: SlotMeaning): ThreadLocal | undefined {
  const moduleId = readU64(pair, 0);
  const offset = (blockOffset ?? readU64(pair, 8)) + further;
  const isModule = moduleId > 0 && moduleId < MODULES_MAX && offset >= 0 && offset < DISTANCE_MAX;
  return isModule ? { mode: 'dynamic', moduleId, offset } : undefined;
}
