/** The planner's worker thread: it reads recordings and writes JSON, so that the main thread does neither. */
import { parentPort, workerData } from 'node:worker_threads';
import { openRecordingStore } from '../../store/embedded/recording_store.ts';
import type { ServedPaths } from '../../store/embedded/served_files.ts';
import { giveWay } from '../../thread_schedule.ts';
import { answerQuestions } from './answer_questions.ts';
import { createPlanner } from './planner.ts';

// This thread reads ahead, while the player's thread must get a CPU whenever it needs one.
giveWay();
const { data, recordings } = workerData as ServedPaths;
answerQuestions(parentPort!, createPlanner(openRecordingStore(data, recordings)));
