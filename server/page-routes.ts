import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { constants, gzip } from 'node:zlib';
import type { Context, Hono } from 'hono';
import { ApiError } from './error-envelope.ts';
import { policyOfPage } from './guard-request.ts';
import { type PageAssets, prefersPage } from './page-assets.ts';
import type { RunsEnv } from './runs-env.ts';

/** Paths that are a view of the page for browsers, and a route of the API for programs. */
const VIEWS = [
  '/runs',
  '/runs/:id',
  '/threads/:id',
  '/inbox',
  '/inbox/:run/:call',
  '/regressions',
  '/agents',
  '/agents/:name',
];

const PAGES = ['/', '/compare/:pair', '/sessions/:id'];

type Packed = { etag: string; plain: Uint8Array<ArrayBuffer>; gzipped: Uint8Array<ArrayBuffer> };

const compress = promisify(gzip);

export function addPage(app: Hono<RunsEnv>, assets: PageAssets): void {
  const packed = new Map<string | Uint8Array, Promise<Packed>>();
  const pack = (body: string | Uint8Array): Promise<Packed> => {
    const known = packed.get(body) ?? packFile(body);
    packed.set(body, known);
    return known;
  };
  const policy = policyOfPage(assets);
  const sendPage = async (c: Context<RunsEnv>) => {
    c.header('Content-Type', 'text/html; charset=UTF-8');
    c.header('Content-Security-Policy', policy);
    return send(c, await pack(assets.html));
  };
  for (const path of PAGES) app.get(path, sendPage);
  for (const path of VIEWS) {
    app.get(path, async (c, next) => {
      c.header('Vary', 'Accept');
      return prefersPage(c.req.header('accept')) ? await sendPage(c) : await next();
    });
  }
  app.get('/assets/*', async c => {
    const asset = assets.find(c.req.path);
    if (asset === undefined) throw new ApiError('not-found', 'The page has no such file. Reload the page.');
    c.header('Content-Type', asset.type);
    const isFixed = asset.immutable === true;
    return send(c, await pack(asset.body), isFixed ? 'public, max-age=31536000, immutable' : 'no-cache');
  });
}

function send(c: Context<RunsEnv>, { etag, plain, gzipped }: Packed, caching = 'no-cache'): Response {
  c.header('Cache-Control', caching);
  c.header('ETag', etag);
  c.header('Vary', 'Accept-Encoding', { append: true });
  if (c.req.header('if-none-match')?.includes(etag) === true) return c.body(null, 304);
  if (!/\bgzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))/i.test(c.req.header('accept-encoding') ?? ''))
    return c.body(plain);
  c.header('Content-Encoding', 'gzip');
  return c.body(gzipped);
}

async function packFile(body: string | Uint8Array): Promise<Packed> {
  const plain = new Uint8Array(Buffer.from(body));
  const gzipped = new Uint8Array(await compress(plain, { level: constants.Z_BEST_COMPRESSION }));
  return {
    etag: `W/"${createHash('sha256').update(plain).digest('base64url').slice(0, 22)}"`,
    plain,
    gzipped,
  };
}
