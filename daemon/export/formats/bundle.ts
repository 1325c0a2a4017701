/** A recording that holds chosen events only, with the texts that they use; event ids stay as they are. */
import { statSync } from 'node:fs';
import { createBundle } from '../../../agent/recording/write/bundle.ts';
import type { FileKind } from '../../../bpf/schema/owner.ts';
import type { EventWriter, Surroundings } from '../encoder.ts';
import { type IdMap, remapped } from '../remap.ts';

/** A bundle is for others: it does not say which machine recorded it, beyond the node's name. */
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
 * For what the bundle does, never for reading the recording: what to do about a data folder does not help here, and
 * SQLite's own error is put in words by who knows the target.
 */
function withoutAdvice<Result>(work: () => Result): Result {
  try {
    return work();
  } catch (error) {
    throw (error as Error).cause ?? error;
  }
}
