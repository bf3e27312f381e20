import { readFileSync } from 'node:fs';
import type { UIMessage } from 'ai';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/agent.ts';
import type { InboxItem, JsonOpenItem } from '../../protocol/run-view.ts';
import { explore } from '../../testing/index.ts';
import { ChatSite, KEYS } from '../support/fronts/ai-sdk-ui/chat-site.ts';
import { TAKES_ALL } from '../support/sample.ts';
import { until } from '../support/server/runs-app.ts';
import { CHROMIUM, closePages, sharedChromium } from '../support/visualizer/browser.ts';

const TURNS = [
  { text: 'I look it up.', toolCalls: [{ name: 'lookup_order', arguments: { orderId: 'A-1' } }] },
  { toolCalls: [{ name: 'refund', arguments: { orderId: 'A-1', cents: 4200 } }] },
  { text: 'I refunded 42 dollars.' },
];

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8');

describe('the chat example', () => {
  it('has a server of at most 15 lines, and a page that imports nothing but @ai-sdk/react', () => {
    const server = read('examples/apps/use-chat/server.ts');
    expect(server.trimEnd().split('\n').length).toBeLessThanOrEqual(15);
    const imported = read('examples/apps/use-chat/page.jsx').match(/(?<=from ')[^']+/g);
    expect(imported).toEqual(['@ai-sdk/react']);
  });
});

test('the person who starts a run of the chat example never decides its refund, in all states that the run can have', async () => {
  await import('../support/use-sources.ts');
  const { lookUpOrder, refund } = await import('../../examples/apps/use-chat/tools.ts');
  const agent = createAgent({
    name: 'support',
    model: scripted([]),
    tools: [lookUpOrder, refund],
    limits: { turns: 1, toolCalls: 1 },
    onLimit: 'stop',
    retry: { attempts: 1 },
  });
  const report = explore(agent, { maxStates: 60_000 });
  console.log(`${report.states} states, ${report.decisions} decisions`);
  expect(report).toMatchObject({ complete: true, breaches: [] });
  expect(report.invariants).toContain(
    'only those decide a call whom its approval allows: the starter or a sender never does, if it says so',
  );
  expect(report.decisions).toBeGreaterThan(1_000);
});

test('a chat continues in another process after its server was killed, and only the manager decides', async () => {
  const slow = [...TURNS.slice(0, 2), { text: 'I refunded 42 dollars.', delayMs: 100_000 }];
  const site = new ChatSite(slow);
  const as = (who: keyof typeof KEYS, path: string, body?: object) =>
    fetch(`${api}${path}`, {
      ...(body && { method: 'POST', body: JSON.stringify(body) }),
      headers: { cookie: `key=${KEYS[who]}`, 'content-type': 'application/json' },
    });
  let api = await site.start();
  try {
    expect((await fetch(`${api}/c`)).status).toBe(401);
    const user = { id: 'u1', role: 'user', parts: [{ type: 'text', text: 'Refund A-1.' }] };
    const post = { id: 'c', trigger: 'submit-message' };
    await (await as('customer', '', { ...post, messages: [user] })).text();
    await site.kill();
    api = await site.start();
    const messages = (await (await as('customer', '/c')).json()) as [UIMessage, UIMessage];
    expect((await as('customer', '/c/stream')).status).toBe(204);
    const inbox = (await (await as('manager', '/../inbox')).json()) as {
      items: [InboxItem & { call: JsonOpenItem }];
    };
    const { runId, call } = inbox.items[0];
    const decision = { callId: call.callId, digest: call.digest };
    expect((await as('customer', `/../runs/${runId}/approve`, decision)).status).toBe(403);
    expect((await as('manager', `/../runs/${runId}/approve`, decision)).status).toBe(200);
    await until(async () =>
      (await (await as('customer', '/c')).text()).includes('"refunded":4200') ? true : undefined,
    );
    await site.kill();
    api = await site.start();
    const resumed = await as('customer', '/c/stream');
    expect(resumed.status).toBe(200);
    const replay = resumed.body?.getReader();
    let seen = '';
    while (!seen.includes('"refunded":4200')) seen += new TextDecoder().decode((await replay?.read())?.value);
    expect(seen).toContain(`"messageId":"${messages[1].id}"`);
    await replay?.cancel();
  } finally {
    await site.close();
  }
});

describe.runIf(TAKES_ALL && CHROMIUM !== undefined)('the page with useChat, in a browser', () => {
  let site: ChatSite;
  let browser: Browser;
  let url = '';
  beforeAll(async () => {
    site = new ChatSite(TURNS);
    [browser, url] = await Promise.all([sharedChromium(), site.start().then(() => site.open())]);
  });
  afterAll(async () => {
    await closePages(browser);
    await site.close();
  });

  it('asks, survives a reload and the death of its server, waits for the manager and shows the answer', async () => {
    const page = await browser.newPage();
    const inbox = await browser.newPage();
    const problems: string[] = [];
    for (const each of [page, inbox]) {
      each.setDefaultTimeout(20_000);
      each.on('pageerror', error => problems.push(String(error)));
    }
    await page.goto(`${url}#${KEYS.customer}`);
    await page.getByLabel('Message').fill('Refund A-1.');
    await page.getByRole('button', { name: 'Send' }).click();
    await page.getByText('managers').waitFor();
    expect(await page.getByRole('button', { name: 'Approve' }).count()).toBe(0);
    await site.kill();
    await site.start();
    await page.reload();
    await page.getByText('managers').waitFor();
    await inbox.goto(`${url}#${KEYS.manager}`);
    await inbox.getByText('It pays 4200 cents.').waitFor();
    await inbox.getByRole('button', { name: 'Approve' }).click();
    await inbox.getByText('It pays 4200 cents.').waitFor({ state: 'detached' });
    await page.goto(`${url}?again#${KEYS.customer}`);
    await page.getByText('I refunded 42 dollars.').waitFor();
    const refund = await page.getByRole('region', { name: 'refund' }).textContent();
    expect(refund).toContain('output-available{"refunded":4200}');
    expect(problems).toEqual([]);
  });
});
