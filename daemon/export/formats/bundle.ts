/** Writes a recording that contains only selected events and the texts that they use; event ids stay the same. */
import { statSync } from 'node:fs';
import { createBundle } from '../../../agent/recording/write/bundle.ts';
import type { FileKind } from '../../../bpf/schema/owner.ts';
import type { EventWriter, Surroundings } from '../encoder.ts';
import { type IdMap, remapped } from '../remap.ts';

/** A bundle is given to others: it does not identify the machine that recorded it, beyond the node's name. */
const NO_HOST = { bootId: '', machineId: '' };

export function bundleWriter(path: string, { dictionary, createdNs, losses, clockSteps }: Surroundings): EventWriter {
  const { recordingId, node } = dictionary;
  const bundle = withoutAdvice(() => createBundle({ path, recordingId, node, ...NO_HOST, createdNs }));
  const ids: IdMap = {
    name: (id) => bundle.nameId(dictionary.name(id)),
    file: (id) => {
      const file = dictionary.file(id);
      return file ? bundle.fileId(file.path, file.kind as FileKind) : 0;
    },
    context: (id) => bundle.contextId(dictionary.context(id)),
  };
  return {
    write({ block }) {
      const own = remapped(block, ids);
      withoutAdvice(() => bundle.append(own));
    },
    finish() {
      const known = losses();
      withoutAdvice(() => {
        for (const loss of known) bundle.recordLoss(loss);
        for (const step of clockSteps) bundle.recordClock(step);
      });
    },
    close: () => withoutAdvice(bundle.close),
    bytes: () => statSync(path).size,
  };
}

/**
 * Used for what the bundle does, never for reading the recording: advice about a data folder does not help here, and
 * the caller, which has the target's name, describes SQLite's own error.
 */
function withoutAdvice<Result>(work: () => Result): Result {
  try {
    return work();
  } catch (error) {
    throw (error as Error).cause ?? error;
  }
}
