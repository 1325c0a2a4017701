/**
 * Serves the API's description as a document and as a page, and the guide; they load nothing from other sites. Their
 * addresses are relative, as a proxy may have them below a path.
 */
import { readFileSync } from 'node:fs';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import express, { Router } from 'express';
import { stringify } from '../base/exact_json.ts';
import { openApiDocument } from '../http/contract/openapi.ts';
import { methodNotAllowed } from '../http/problem_handler.ts';
import { noParameters } from '../query/parameters.ts';
import { parseQuery } from '../query/query_string.ts';

const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>kreplay API</title>
<link rel="stylesheet" href="docs/swagger-ui.css">
</head>
<body>
<main id="api"></main>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/show.js"></script>
</body>
</html>
`;

/** Without `validatorUrl: null`, the page would send the document to a server of Swagger UI's makers. */
const SHOW = `SwaggerUIBundle({ url: 'openapi.json', dom_id: '#api', validatorUrl: null });
`;

const packaged = (name: string) => () => readFileSync(fileURLToPath(import.meta.resolve(`swagger-ui-dist/${name}`)));

interface File {
  type: string;
  read: () => string | Buffer;
}

const FILES: Readonly<Record<string, File>> = {
  '/docs': { type: 'html', read: () => PAGE },
  '/docs/show.js': { type: 'js', read: () => SHOW },
  '/docs/swagger-ui.css': { type: 'css', read: packaged('swagger-ui.css') },
  '/docs/swagger-ui-bundle.js': { type: 'js', read: packaged('swagger-ui-bundle.js') },
};

/** A relative address in a page counts from the last slash of the page's own. */
const LEAD_TO = new Map([
  ['/docs/', '../docs'],
  ['/docs/guide', 'guide/'],
]);

const GUIDE = dirname(fileURLToPath(import.meta.resolve('#guide/index.html')));

export function documentRoutes(): Router {
  const router = Router();
  router.use((req, res, next) => {
    const place = LEAD_TO.get(req.path);
    if (place === undefined || (req.method !== 'GET' && req.method !== 'HEAD')) next();
    else res.redirect(301, place);
  });
  router.use('/docs/guide', express.static(GUIDE, { dotfiles: 'ignore', redirect: false }));
  const serve = (path: string, { type, read }: File) => {
    // Read on first use, to save 1.5 MiB of memory for a page that is rarely requested.
    let body: string | Buffer | undefined;
    router
      .route(path)
      .get((req, res) => {
        parseQuery(req.query, noParameters);
        body ??= read();
        res.type(type).send(body);
      })
      .all(methodNotAllowed('GET', 'HEAD'));
  };
  serve('/openapi.json', { type: 'application/json', read: () => stringify(openApiDocument()) });
  for (const [path, file] of Object.entries(FILES)) serve(path, file);
  return router;
}
