/** Tests that `/docs` works in a browser that can reach only the daemon. */
import express from 'express';
import helmet from 'helmet';
import { ENDPOINTS } from '../../../daemon/http/contract/openapi.ts';
import { close, listen } from '../../../daemon/server/server.ts';
import { shown } from '../browser.ts';
import { start } from '../command_line.ts';
import { newFolder } from '../recorded.ts';

const BROWSER_MS = 120_000;

test(
  'the page shows every operation, contacts no other host, and needs nothing that its policy forbids',
  async () => {
    const daemon = start('daemon', '--data', newFolder(), '--listen', '127.0.0.1:0');
    const [, url] = / at (\S+)\n/.exec(await daemon.printed(/\n/))!;
    const { dom, requested, console } = await shown(`${url}/docs`).finally(() => daemon.child.kill());
    await daemon.ended;
    const operations = [...dom.matchAll(/class="opblock opblock-[^"]*" id="operations-([^"]+)"/g)].map(([, id]) => id);
    expect(operations.toSorted()).toEqual(ENDPOINTS.map(({ tag, operationId }) => `${tag}-${operationId}`).toSorted());
    for (const { path } of ENDPOINTS) expect(dom).toContain(`data-path="${path}"`);
    expect(requested).toContain(`${url}/openapi.json`);
    expect(requested.filter((asked) => new URL(asked).origin !== url)).toEqual([]);
    expect(console).toEqual([]);
  },
  BROWSER_MS,
);

test(
  'a page that violates this is detected',
  async () => {
    const app = express().use(helmet({ contentSecurityPolicy: { directives: { 'img-src': '*' } } }));
    app.get(
      '/',
      (_req, res) => void res.send('<p id="p"></p><script>p.id="q"</script><img src="https://a.example/b">'),
    );
    const [server, url] = await listen(app, { host: '127.0.0.1', port: 0 });
    const { dom, requested, console } = await shown(`${url}/`).finally(() => close(server));
    expect(dom).toContain('id="p"');
    expect(requested).toContain('https://a.example/b');
    expect(console).toContainEqual(expect.stringMatching(/Content Security Policy/));
  },
  BROWSER_MS,
);
