/** Tests that the player of replays uses its memory rightly: the sanitizers take 7 s of CPU to compile in. */
import { expectNothingReported } from './clock/stress.ts';

test('-fsanitize=address,undefined reports nothing, and every frame arrives once', () => {
  expectNothingReported('address,undefined');
});
