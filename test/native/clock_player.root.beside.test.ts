/** Tests that the threads of the player of replays do not race. */
import { expectNothingReported } from './clock/stress.ts';

test('-fsanitize=thread reports nothing, and every frame arrives once', () => {
  expectNothingReported('thread');
});
