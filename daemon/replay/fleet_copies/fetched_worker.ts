/** The planner's worker thread for a fleet, which also copies the transactions that it plans. */
import { parentPort, workerData } from 'node:worker_threads';
import { openFleet } from '../../store/fleet/open_fleet.ts';
import { giveWay } from '../../thread_schedule.ts';
import { answerQuestions } from '../plan/answer_questions.ts';
import { openCopies } from './copies.ts';
import type { FetchedPlaces } from './fetched_planner.ts';
import { createFetchingPlanner } from './fetching_planner.ts';

giveWay();
const { fleet: settings, folder, bytesMax } = workerData as FetchedPlaces;
// Questions that arrive before the fleet is open wait in the port.
const fleet = await openFleet(settings);
answerQuestions(parentPort!, createFetchingPlanner(fleet, openCopies(fleet, folder, bytesMax)));
