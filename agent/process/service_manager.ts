/**
 * Notifies the service manager that started this process: sd_notify(3). Does nothing if there is no service manager.
 */
import { createRequire } from 'node:module';

/** The function of the addon native/system that this file calls. */
interface NativeSystem {
  sendDatagram(socket: string, text: string): boolean;
}

export interface ServiceManager {
  reportReady(status: string): void;
  reportStopping(): void;
  /**
   * Reports that this process works, as often as the manager requires. The reports stop while the event loop is blocked
   * or `works` returns false; `patienceMs` is the manager's timeout. Returns a function that ends the reports.
   */
  watch(works: (patienceMs: number) => boolean): () => void;
}

/** Number of reports in each timeout of the manager; several reports may be late without harm. */
const PINGS_A_TIMEOUT = 4;

/**
 * Creates the connection to the manager. Removes the manager's variables from the environment, because processes that
 * this process starts are not the service.
 */
export function createServiceManager(environment: NodeJS.ProcessEnv = process.env): ServiceManager {
  const { NOTIFY_SOCKET: socket, WATCHDOG_USEC: usec, WATCHDOG_PID: pid } = environment;
  for (const name of ['NOTIFY_SOCKET', 'WATCHDOG_USEC', 'WATCHDOG_PID']) delete environment[name];
  if (!socket) return { reportReady() {}, reportStopping() {}, watch: () => () => {} };
  const native: NativeSystem = createRequire(import.meta.url)('#system');
  const tell = (text: string) => native.sendDatagram(socket, text);
  const timeoutMs = pid === undefined || Number(pid) === process.pid ? Number(usec ?? 0) / 1000 : 0;
  return {
    reportReady(status) {
      tell(`READY=1\nSTATUS=${status.replaceAll('\n', ' ')}`);
    },
    reportStopping() {
      tell('STOPPING=1');
    },
    watch(works) {
      if (!(timeoutMs > 0)) return () => {};
      const ping = () => {
        if (works(timeoutMs)) tell('WATCHDOG=1');
      };
      ping();
      const pings = setInterval(ping, timeoutMs / PINGS_A_TIMEOUT).unref();
      return () => clearInterval(pings);
    },
  };
}
