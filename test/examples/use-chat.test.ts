import { readFileSync } from 'node:fs';
import type { UIMessage } from 'ai';
import type { Browser } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it, test } from 'vitest';
import { toolsIn } from '../support/fronts/ai-sdk-ui/chat-page.ts';
import { ChatSite } from '../support/fronts/ai-sdk-ui/chat-site.ts';
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

test('a chat continues in another process after its server was killed: while it waited, and while it worked', async () => {
  const slow = [...TURNS.slice(0, 2), { text: 'I refunded 42 dollars.', delayMs: 100_000 }];
  const first = new ChatSite(slow);
  try {
    const post = async (api: string, body: object) =>
      await fetch(api, {
        method: 'POST',
        body: JSON.stringify({ id: 'c', trigger: 'submit-message', ...body }),
      });
    const user = { id: 'u1', role: 'user', parts: [{ type: 'text', text: 'Refund A-1.' }] };
    await (await post(await first.start(), { messages: [user] })).text();
    await first.kill();
    let api = await first.start();
    const messages = (await (await fetch(`${api}/c`)).json()) as [UIMessage, UIMessage];
    expect((await fetch(`${api}/c/stream`)).status).toBe(204);
    const [call] = toolsIn(messages[1]).filter(({ state }) => state === 'approval-requested');
    const answered = JSON.parse(
      JSON.stringify(messages).replace('"approval-requested"', '"approval-responded"'),
    );
    const part = toolsIn(answered[1]).find(({ state }) => state === 'approval-responded');
    Object.assign(part?.approval ?? {}, { approved: true });
    expect(call?.toolCallId).toBe(part?.toolCallId);
    const stream = await post(api, { messages: answered, messageId: messages[1].id });
    const reader = stream.body?.getReader();
    await reader?.read();
    await until(async () =>
      (await (await fetch(`${api}/c`)).text()).includes('"refunded":4200') ? true : undefined,
    );
    await first.kill();
    await reader?.cancel().catch(() => {});
    api = await first.start();
    const resumed = await fetch(`${api}/c/stream`);
    expect(resumed.status).toBe(200);
    const replay = resumed.body?.getReader();
    let seen = '';
    while (!seen.includes('"refunded":4200')) seen += new TextDecoder().decode((await replay?.read())?.value);
    expect(seen).toContain(`"messageId":"${messages[1].id}"`);
    expect(await (await fetch(`${api}/c/stop`, { method: 'POST' })).json()).toEqual({ stopped: true });
    await replay?.cancel();
    expect((await fetch(`${api}/c/stream`)).status).toBe(204);
  } finally {
    await first.close();
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

  it('asks, survives a reload and the death of its server, approves and shows the answer', async () => {
    const page = await browser.newPage();
    page.setDefaultTimeout(20_000);
    const problems: string[] = [];
    page.on('pageerror', error => problems.push(String(error)));
    await page.goto(url);
    await page.getByLabel('Message').fill('Refund A-1.');
    await page.getByRole('button', { name: 'Send' }).click();
    await page.getByText('It pays 4200 cents.').waitFor();
    await site.kill();
    await site.start();
    await page.reload();
    await page.getByRole('button', { name: 'Approve' }).click();
    await page.getByText('I refunded 42 dollars.').waitFor();
    const refund = await page.getByRole('region', { name: 'refund' }).textContent();
    expect(refund).toContain('output-available{"refunded":4200}');
    const isReady = page.locator('output').getByText('ready');
    await isReady.waitFor();
    const shown = await page.locator('main').innerText();
    await page.reload();
    await page.getByText('I refunded 42 dollars.').waitFor();
    await isReady.waitFor();
    expect(await page.locator('main').innerText()).toBe(shown);
    await page.getByRole('button', { name: 'Again' }).click();
    await page.getByText('It pays 4200 cents.').waitFor();
    await page.getByRole('button', { name: 'Reject' }).click();
    await page.getByText('output-denied').waitFor();
    expect(problems).toEqual([]);
  });
});
