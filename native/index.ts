export { BpfError } from './errors.ts';
export {
  btfEnumerator,
  btfFieldExists,
  btfFuncProtoArgCount,
  btfFuncProtoArgCounts,
  btfTypeExists,
  type ClockState,
  clockState,
  type Features,
  features,
  possibleCpus,
  readClocks,
  tracepointsArePreempted,
} from './kernel.ts';
export { BpfMap } from './map.ts';
export {
  BpfObject,
  type MapInfo,
  type OpenOptions,
  type ProgramInfo,
  type ProgramStats,
  type TestRunOptions,
  type TestRunResult,
  type VariableInfo,
} from './object.ts';
export { FRAME_HEADER_BYTES, RingReader } from './ring.ts';
export type { VariableValue } from './variable.ts';
