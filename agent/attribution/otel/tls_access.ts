/**
 * Where a thread-local variable is, for every thread of a process: at a fixed distance from the thread pointer, or in
 * the block that the thread's vector (dtv) has for the module. x86-64, whose blocks lie below the thread pointer.
 *
 * A program knows the distance when it is linked. For a library only the dynamic linker knows, and writes it where the
 * code looks for it: in the slots of the library's relocations (Ulrich Drepper, ELF Handling For Thread-Local Storage;
 * Alexandre Oliva, Thread-Local Storage Descriptors for IA32 and AMD64/EM64T).
 */
import { type Elf, readI64, readU64, type TlsRelocationKind, type TlsSegment } from './elf.ts';

export type ThreadLocal =
  /** At the thread pointer + `offset`, which is negative. */
  | { readonly mode: 'static'; readonly offset: number }
  /** In the block of that module, once the thread has one. */
  | { readonly mode: 'dynamic'; readonly moduleId: number; readonly offset: number };

export type ThreadLocalAccess =
  | ThreadLocal
  /** The dynamic linker has not been there yet. */
  | 'not_bound'
  /** Nothing in the module tells. */
  | 'not_told';

/** Fills `into` with what is at an address of the process, or gives false. */
export type ReadMemory = (address: number, into: Uint8Array) => boolean;

/** What no program has; a slot that was not filled in yet may hold anything. */
const DISTANCE_MAX = 2 ** 31;
const MODULES_MAX = 2 ** 16;
const SLOTS_MAX = 64;

/** From the thread pointer down to the beginning of the program's own block. Undefined: no such block can be. */
export function programBlockDistance({ address, memorySize, alignment }: TlsSegment): number | undefined {
  // A segment that begins askew keeps its place within the alignment.
  const unit = Math.max(alignment, 1);
  const distance = memorySize + ((unit - ((address + memorySize) % unit)) % unit);
  return distance < DISTANCE_MAX ? distance : undefined;
}

/**
 * By the slots of one module for `name`. `own`: the variable's offset in this module's block; undefined when another
 * module has the variable and this one uses it.
 */
export function accessBySlots(
  elf: Elf,
  name: string,
  own: number | undefined,
  bias: number,
  read: ReadMemory,
): ThreadLocalAccess {
  let access: ThreadLocalAccess = 'not_told';
  let left = SLOTS_MAX;
  for (const { kind, address, symbol, addend } of elf.tlsRelocations()) {
    if (symbol === undefined ? own === undefined : symbol !== name) continue;
    if (left-- === 0) break;
    access = readSlot(kind, bias + address, slotMeaning(symbol, addend, own), read) ?? 'not_bound';
    if (access !== 'not_bound') break;
  }
  return access;
}

interface SlotMeaning {
  /** Offset in the module's block, when the file tells which one the slot is for. */
  blockOffset: number | undefined;
  /** From what the slot is for to the variable. */
  further: number;
}

/** A slot is for a symbol, wherever that is found, or for the module's own block; and so much further in both. */
function slotMeaning(symbol: string | undefined, addend: number, own: number | undefined): SlotMeaning {
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
  if (kind === 'offset') return staticAt(readI64(slot, 0) + meaning.further);
  if (kind === 'module') return moduleIn(slot, meaning);
  const argument = readI64(slot, 8);
  if (argument < 0) return staticAt(argument + meaning.further);
  // Before it is bound, it may be a pointer to the relocation, whose second word is no offset.
  if (!read(argument, new Uint8Array(slot.buffer))) return undefined;
  return meaning.blockOffset === undefined || readU64(slot, 8) === meaning.blockOffset
    ? moduleIn(slot, meaning)
    : undefined;
}

function staticAt(offset: number): ThreadLocal | undefined {
  return offset < 0 && offset > -DISTANCE_MAX ? { mode: 'static', offset } : undefined;
}

/** The module's number and the offset in its block. Of a slot for the module itself the second word may be unused. */
function moduleIn(pair: DataView, { blockOffset, further }: SlotMeaning): ThreadLocal | undefined {
  const moduleId = readU64(pair, 0);
  const offset = (blockOffset ?? readU64(pair, 8)) + further;
  const isModule = moduleId > 0 && moduleId < MODULES_MAX && offset >= 0 && offset < DISTANCE_MAX;
  return isModule ? { mode: 'dynamic', moduleId, offset } : undefined;
}
