/** Ports for servers that have to be told of one before they start. */
import { once } from 'node:events';
import { createServer } from 'node:net';

/**
 * Below the ports that the kernel gives to connections and to servers that ask for any: a port that is free now still is
 * when the server that is told of it starts.
 */
const [FIRST_PORT, PORT_COUNT] = [12_000, 16_000];
/** Suites that run at the same time begin at places of their own. */
let nextPort = (process.pid * 131) % PORT_COUNT;

export async function freePort(): Promise<number> {
  for (;;) {
    const port = FIRST_PORT + (nextPort++ % PORT_COUNT);
    const probe = createServer().listen(port, '127.0.0.1');
    try {
      await once(probe, 'listening');
      probe.close();
      await once(probe, 'close');
      return port;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error;
    }
  }
}
