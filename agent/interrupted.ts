/** Reports why an agent continues in another file than before. */
import type { Logger } from 'pino';
import type { LossCause } from '../bpf/schema/losses.ts';
import type { RecordingError } from './recording/format/errors.ts';
import type { LeftBehind } from './recording/write/committer.ts';
import { setAside } from './recording/write/set_aside.ts';

/** The interruption of the previous recording, as the next one notes it. */
export interface Interrupted extends LeftBehind {
  cause?: LossCause;
}

export function leaveDamaged(path: string, damage: RecordingError, log: Logger): Interrupted {
  const { place, writtenUntilNs } = setAside(path, Date.now());
  log.error(
    { file: place, reason: damage.message },
    `${path} is damaged: it is now ${place}, where it is still served, and recording goes on in a new one`,
  );
  return { fromNs: writtenUntilNs, events: 0, place, isOverwritten: false, cause: 'recording_damaged' };
}

export function goneText(path: string, left: LeftBehind | undefined): string {
  if (!left) return `the files beside ${path} were removed while it was recorded into: it is opened again`;
  const { place, events, isOverwritten } = left;
  if (isOverwritten)
    return `${path} was overwritten while it was recorded into: the ${events} events that this agent wrote are lost`;
  return place === undefined
    ? `${path} was removed while it was recorded into: the ${events} events that it held are lost`
    : `${path} was replaced or moved while it was recorded into: the ${events} events that it held are in ${place}`;
}
