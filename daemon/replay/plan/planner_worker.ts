/** The planner's worker thread, which reads recordings and writes JSON to relieve the main thread. */
import { parentPort, workerData } from 'node:worker_threads';
import { openRecordingStore } from '../../store/embedded/recording_store.ts';
import type { ServedPaths } from '../../store/embedded/served_files.ts';
import { giveWay } from '../../thread_schedule.ts';
import { answerQuestions } from './answer_questions.ts';
import { createPlanner } from './planner.ts';

// This thread works ahead of time, but the player's thread must get a CPU as soon as a frame is due.
giveWay();
const { data, recordings } = workerData as ServedPaths;
answerQuestions(parentPort!, createPlanner(openRecordingStore(data, recordings)));
