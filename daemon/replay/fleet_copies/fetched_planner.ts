/** The main thread's interface to a planner of a fleet's transactions, which works in its own thread. */
import { extname } from 'node:path';
import type { FleetSettings } from '../../store/fleet/open_fleet.ts';
import type { Planner } from '../plan/planner.ts';
import { createPlannerThread } from '../plan/planner_thread.ts';

/**
 * The folder in which copies of transactions are kept, and the maximum size of all copies; copies in use are never
 * removed.
 */
export interface FetchedPlaces {
  fleet: FleetSettings;
  folder: string;
  bytesMax: number;
}

export function createFetchedPlanner(places: FetchedPlaces): Planner {
  // The compiled file has another extension.
  const file = new URL(`./fetched_worker${extname(import.meta.filename)}`, import.meta.url);
  return createPlannerThread(places, file);
}
