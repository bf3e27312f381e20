import { expect, test } from 'vitest';
import { MAIN_OPERATOR } from '../../../access/caller.ts';
import { closeOn, Sessions } from '../../../server/access/sessions.ts';
import { ManualHost } from '../../../testing/manual-host.ts';
import { makeApp, REFUND } from '../../support/server/runs-app.ts';

const TOKEN = 'correct-horse-battery-staple';
const DAY_MS = 24 * 3_600_000;

/** A page that signed in: its cookie, and its open streams. */
class Page {
  readonly #server: ReturnType<typeof makeApp>;
  readonly cookie: string;

  private constructor(server: ReturnType<typeof makeApp>, cookie: string) {
    this.#server = server;
    this.cookie = cookie;
  }

  static async signIn(server: ReturnType<typeof makeApp>, cookie = ''): Promise<Page> {
    const response = await server.send('POST', '/session', { token: TOKEN }, { cookie });
    const [own = ''] = (response.headers.get('set-cookie') ?? '').split(';');
    return new Page(server, own);
  }

  async open(path: string): Promise<ReadableStreamDefaultReader<Uint8Array>> {
    const { status, body } = await this.#server.send('GET', path, undefined, { cookie: this.cookie });
    if (status !== 200 || body === null) throw new Error(`${status}`);
    const reader = body.getReader();
    await reader.read();
    return reader;
  }

  async signOut(): Promise<void> {
    await this.#server.send('DELETE', '/session', undefined, { cookie: this.cookie });
  }

  async status(path: string): Promise<number> {
    return (await this.#server.send('GET', path, undefined, { cookie: this.cookie })).status;
  }
}

/** Reads a stream to its end. */
async function end(reader: ReadableStreamDefaultReader<Uint8Array>): Promise<'ended'> {
  while (!(await reader.read()).done);
  return 'ended';
}

async function makeServer() {
  const server = makeApp({ token: TOKEN, turns: [REFUND] });
  const as = { authorization: `Bearer ${TOKEN}` };
  const started = await server.send('POST', '/runs', { input: 'go' }, as);
  const { runId } = (await started.json()) as { runId: string };
  return {
    server,

    as,
    paths: ['/events?summaries=1', `/events?run=${runId}`, `/runs/${runId}/events`],
  };
}

test('signing out ends the streams of the session, and frees what they held', async () => {
  const { server, paths } = await makeServer();
  const held = server.app.countHeld();
  const page = await Page.signIn(server);
  const streams = await Promise.all(paths.map(path => page.open(path)));
  const waiting = streams.map(end);
  await page.signOut();
  expect(await Promise.all(waiting)).toEqual(['ended', 'ended', 'ended']);
  expect(server.app.countHeld()).toBeLessThanOrEqual(held);
  for (const path of paths) expect(await page.status(path)).toBe(401);
});

test('signing out ends no stream of another session or of a token', async () => {
  const { server, paths, as } = await makeServer();
  const page = await Page.signIn(server);
  const other = await Page.signIn(server);
  const [, , path = ''] = paths;
  const stays = await other.open(path);
  const ofToken = (await server.send('GET', path, undefined, as)).body?.getReader();
  const ends = await page.open(path);
  await page.signOut();
  expect(await end(ends)).toBe('ended');
  for (const reader of [stays, ofToken]) {
    expect((await reader?.read())?.done).toBe(false);
    await reader?.cancel();
  }
});

test('signing in again ends the streams of the session before', async () => {
  const { server, paths } = await makeServer();
  const page = await Page.signIn(server);
  const streams = await Promise.all(paths.map(path => page.open(path)));
  await Page.signIn(server, page.cookie);
  expect(await Promise.all(streams.map(end))).toEqual(['ended', 'ended', 'ended']);
});

test('a session ends after seven days, and the oldest of 1,000 with the next', async () => {
  const host = new ManualHost();
  const sessions = new Sessions(host);
  const first = sessions.find(sessions.begin(MAIN_OPERATOR));
  await host.advance(7 * DAY_MS - 1);
  expect(first?.ended.aborted).toBe(false);
  await host.advance(1);
  expect(first?.ended.aborted).toBe(true);
  const ids = Array.from({ length: 1_000 }, () => sessions.begin(MAIN_OPERATOR));
  const [oldest, second] = ids.slice(0, 2).map(id => sessions.find(id));
  sessions.begin(MAIN_OPERATOR);
  expect([oldest?.ended.aborted, second?.ended.aborted]).toEqual([true, false]);
});

test('a stream of a session that has ended meanwhile is empty, and its source is cancelled', async () => {
  let isCancelled = false;
  const source = new ReadableStream<Uint8Array>({
    pull: controller => controller.enqueue(new Uint8Array([1])),
    cancel: () => {
      isCancelled = true;
    },
  });
  const reader = closeOn(AbortSignal.abort(), source).getReader();
  expect(await reader.read()).toEqual({ done: true, value: undefined });
  expect(isCancelled).toBe(true);
});
