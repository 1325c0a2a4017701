/** `node bare_hello.ts PORT`: an Express server on the loopback that says hello as JSON. */
import express from 'express';

const app = express();
app.get('/', (_req, res) => {
  res.json({ hello: 'world' });
});
const server = app.listen(Number(process.argv[2]), '127.0.0.1', () => process.send!('ready'));
process.once('SIGTERM', () => {
  server.close();
  server.closeAllConnections();
  process.disconnect();
});
