/** A process that becomes a publisher of OpenTelemetry contexts after the agent has checked it for the last time. */
import { CHECKED_MS, expectOwned, goOn, publisher } from './publishers.ts';
import { record, removeFolders, temporaryFolder } from './recorded_run.ts';

/** The third check is 36 seconds after the agent saw the process. */
const CHECKED_LAST_S = 38;

afterAll(removeFolders);

test('a process that publishes contexts is executed late: its threads are owned', async () => {
  const folder = temporaryFolder();
  const shell = `echo x > "$1"/shell; sleep ${CHECKED_LAST_S}; exec "$0" "$1"`;
  const recorded = await record(() =>
    goOn(['sh', '-c', shell, publisher(), folder], CHECKED_LAST_S * 1000 + CHECKED_MS),
  );
  expectOwned(recorded, folder);
});
