/** `node bare_stream.ts SOCKET BYTES`: an Express server that sends this many bytes in pieces of 64 KiB. */
import { once } from 'node:events';
import express from 'express';

const PIECE = Buffer.alloc(64 * 1024, 'x');

const [socketPath, bytes] = process.argv.slice(2);
const app = express();
app.get('/api/events', async (_req, res) => {
  res.type('application/x-ndjson');
  for (let left = Number(bytes); left > 0; left -= PIECE.length) {
    if (!res.write(PIECE.subarray(0, left))) await once(res, 'drain');
  }
  res.end();
});
const server = app.listen(socketPath!, () => process.send!('ready'));
process.once('SIGTERM', () => {
  server.close();
  server.closeAllConnections();
  process.disconnect();
});
