import { serve } from '@hono/node-server';
import { Hono } from 'hono';
import { streamSSE } from 'hono/streaming';
import * as z from 'zod';
import { ApiError, describeError } from '../../../server/error-envelope.ts';
import { guardOrigin, setSecurityHeaders } from '../../../server/guard-request.ts';
import { prefersPage } from '../../../server/page-assets.ts';
import { BODY_LIMITS, readBody } from '../../../server/read-body.ts';
import { pageAssets } from '../../../visualizer/page-assets.ts';
import type { Demo } from '../demo.ts';
import { buildDemoPage, type DemoPage } from './build-demo-page.ts';
import { forwardRequest } from './forward-request.ts';

const HOST = '127.0.0.1';
/** Changes within this time are sent together, in ms. */
const BATCH_MS = 30;
/** What the runs API of the current process answers. */
const FORWARDED = [
  '/runs',
  '/runs/*',
  '/events',
  '/inbox',
  '/totals',
  '/folded',
  '/notes',
  '/regressions',
  '/agents',
];

const killBody = z.strictObject({
  sides: z
    .array(z.enum(['plain', 'chart']))
    .min(1)
    .max(2),
});
const noBody = z.strictObject({});

export type ServedDemo = { url: string; close(): Promise<void> };

/** Serves the demo's page and API, and under `/runs` the run's page and the runs API of the current process. */
export async function serveDemo(demo: Demo, port: number): Promise<ServedDemo> {
  const app = makeApp(demo, await buildDemoPage());
  return await new Promise((resolve, reject) => {
    const server = serve({ fetch: app.fetch, hostname: HOST, port, overrideGlobalObjects: false }, at =>
      resolve({
        url: `http://${HOST}:${at.port}`,
        close: () =>
          new Promise(closed => {
            server.close(() => closed());
            if ('closeAllConnections' in server) server.closeAllConnections();
          }),
      }),
    );
    server.once('error', reject);
  });
}

function makeApp(demo: Demo, page: DemoPage): Hono {
  const app = new Hono();
  app.use(setSecurityHeaders, guardOrigin(HOST));
  app.get('/', c => c.html(page.html));
  app.get('/demo/page.js', c => c.body(page.js, 200, { 'Content-Type': 'text/javascript; charset=utf-8' }));
  app.get('/demo/page.css', c => c.body(page.css, 200, { 'Content-Type': 'text/css; charset=utf-8' }));
  // The page of a run asks here whether its server is still up.
  app.get('/healthz', c => c.json({ ok: true }));
  app.get('/demo/state', c =>
    streamSSE(c, async stream => {
      await stream.write('retry: 300\n\n');
      let changed = true;
      let wake = () => {};
      const end = demo.watch(() => {
        changed = true;
        wake();
      });
      stream.onAbort(() => {
        end();
        wake();
      });
      while (!stream.aborted) {
        if (!changed) await new Promise<void>(resolve => (wake = resolve));
        changed = false;
        if (!stream.aborted) await stream.writeSSE({ data: JSON.stringify(demo.state) });
        await stream.sleep(BATCH_MS);
      }
    }),
  );
  app.post('/demo/kill', async c => {
    demo.kill((await readBody(c.req.raw, killBody, BODY_LIMITS)).sides);
    return c.body(null, 204);
  });
  app.post('/demo/approve-plain', async c => {
    await readBody(c.req.raw, noBody, BODY_LIMITS);
    demo.round.approvePlain();
    return c.body(null, 204);
  });
  app.post('/demo/again', async c => {
    await readBody(c.req.raw, noBody, BODY_LIMITS);
    await demo.again();
    return c.body(null, 204);
  });
  app.get('/runs/:id', async (c, next) =>
    prefersPage(c.req.header('accept')) ? c.html((await pageAssets()).html) : await next(),
  );
  app.get('/assets/*', async (c, next) => {
    const asset = (await pageAssets()).find(c.req.path);
    return asset === undefined ? await next() : c.body(asset.body, 200, { 'Content-Type': asset.type });
  });
  app.on(['GET', 'POST'], FORWARDED, c => forwardRequest(c.req.raw, demo.round));
  app.notFound(c => {
    throw new ApiError('not-found', `There is no ${c.req.method} at this path.`);
  });
  app.onError((error, c) => {
    const { status, envelope } = describeError(error);
    return c.json(envelope, status);
  });
  return app;
}
