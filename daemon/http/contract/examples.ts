/** Examples of bodies and answers in the API's document, by the name of the operation. */
import { DAEMON_EXAMPLES } from './daemon_examples.ts';
import type { Example } from './endpoint.ts';
import { EVENT_EXAMPLES } from './event_examples.ts';
import { REPLAY_EXAMPLES } from './replay_examples.ts';

export const EXAMPLES: Readonly<Record<string, Example>> = {
  ...EVENT_EXAMPLES,
  ...REPLAY_EXAMPLES,
  ...DAEMON_EXAMPLES,
};
