import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { serve } from '@hono/node-server';
import { Hono } from 'hono';
import { build } from 'vite';
import type { ScriptedTurn } from '../../../../adapters/scripted/scripted-turns.ts';
import { makeTemporaryFolder } from '../../temporary-folders.ts';

const ROOT = fileURLToPath(new URL('../../../../', import.meta.url));

/** Of the people whom the example knows. */
export const KEYS = { customer: 'the-key-of-the-customer', manager: 'the-key-of-the-manager' };

/** The chat server of the examples as processes over one store, and its page behind an address that stays. */
export class ChatSite {
  readonly folder = makeTemporaryFolder('chat');
  readonly #env: NodeJS.ProcessEnv;
  #process: ChildProcess | undefined;
  #port = 0;
  #site: ReturnType<typeof serve> | undefined;

  constructor(turns: readonly ScriptedTurn[]) {
    mkdirSync(this.folder, { recursive: true });
    writeFileSync(join(this.folder, 'script.json'), JSON.stringify(turns));
    this.#env = {
      ...process.env,
      AGENTCHART_MODEL: 'scripted:script.json',
      PORT: '0',
      CUSTOMER_KEY: KEYS.customer,
      MANAGER_KEY: KEYS.manager,
    };
  }

  /** Starts a server process, and returns the address of its API. */
  async start(): Promise<string> {
    const args = [
      '--import',
      `${ROOT}test/support/use-sources.ts`,
      `${ROOT}examples/apps/use-chat/server.ts`,
    ];
    const child = spawn(process.execPath, args, {
      cwd: this.folder,
      env: this.#env,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    this.#process = child;
    for await (const line of createInterface({ input: child.stdout })) {
      this.#port = Number(line);
      break;
    }
    return `http://127.0.0.1:${this.#port}/api/chat`;
  }

  async kill(): Promise<void> {
    const child = this.#process;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    child.kill('SIGKILL');
    await once(child, 'exit');
  }

  /** Builds the page, and serves it with the API of the current process below it. Returns its address. */
  async open(): Promise<string> {
    const root = `${ROOT}examples/apps/use-chat`;
    const built = await build({
      root,
      configFile: false,
      logLevel: 'silent',
      build: { write: false, minify: false },
    });
    const files = new Map(
      [built]
        .flat()
        .flatMap(one => ('output' in one ? one.output : []))
        .map(file => [`/${file.fileName}`, file.type === 'chunk' ? file.code : String(file.source)]),
    );
    const app = new Hono();
    app.all('/api/*', c => this.#forward(c.req.raw));
    app.get('/*', c => {
      const path = c.req.path === '/' ? '/index.html' : c.req.path;
      const type = path.endsWith('.js') ? 'text/javascript' : 'text/html';
      return c.body(files.get(path) ?? '', 200, { 'content-type': type });
    });
    const site = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' });
    this.#site = site;
    await once(site, 'listening');
    const address = site.address();
    return `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}/`;
  }

  async close(): Promise<void> {
    await this.kill();
    this.#site?.close();
    if (this.#site !== undefined && 'closeAllConnections' in this.#site) this.#site.closeAllConnections();
  }

  async #forward(request: Request): Promise<Response> {
    const { pathname, search } = new URL(request.url);
    const body = request.method === 'POST' ? { body: await request.text() } : {};
    try {
      return await fetch(`http://127.0.0.1:${this.#port}${pathname}${search}`, {
        method: request.method,
        headers: request.headers,
        signal: request.signal,
        ...body,
      });
    } catch {
      return new Response('down', { status: 502 });
    }
  }
}
