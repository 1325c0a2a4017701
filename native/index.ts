export type { MapInfo, ProgramInfo, ProgramStats } from './addon.ts';
export { BpfError } from './errors.ts';
export { type Features, features, possibleCpus } from './features.ts';
export { btfEnumerator, btfFieldExists, btfFuncProtoArgCount, btfTypeExists } from './kernel_types.ts';
export { BpfMap } from './map.ts';
export {
  BpfObject,
  type OpenOptions,
  type TestRunOptions,
  type TestRunResult,
  type VariableInfo,
} from './object.ts';
export { FRAME_HEADER_BYTES, RingReader, type WaitOptions } from './ring.ts';
export type { VariableValue } from './variable.ts';
