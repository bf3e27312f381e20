import { describe, expect, it, test } from 'vitest';
import { scripted } from '../../adapters/scripted.ts';
import { createAgent } from '../../agent/index.ts';
import { agentInput } from '../../agent/loop.ts';
import { RESERVED_LABELS } from '../../protocol/listing/label.ts';
import type { RunView } from '../../protocol/run-view.ts';
import { tokensConfig } from '../../server/access/access-config.ts';
import { memory } from '../../stores/memory.ts';
import { makeOffice } from '../support/fronts/mcp.ts';
import { DONE, errorOf, makeApp } from '../support/server/runs-app.ts';

const makeAgent = () => createAgent({ name: 'a', store: memory(), model: scripted([DONE, DONE, DONE]) });

it('the reserved labels are those that the documents name', () => {
  expect(RESERVED_LABELS).toEqual(['chat']);
});

describe.each(RESERVED_LABELS)('the label %s is refused, with the reserved names,', name => {
  const labels = { user: '7', [name]: 'x' };
  const refusal = new RegExp(`label "${name}" .*reserved.*${RESERVED_LABELS.join(', ')}`);
  const refused = expect.objectContaining({ code: 'input-invalid', message: expect.stringMatching(refusal) });

  test('of a configured token', () => {
    const web = { token: 'the-token-of-web-0000000', role: 'client', labels };
    const parsed = tokensConfig.safeParse({ web });
    expect(parsed.error?.issues).toMatchObject([
      { path: ['web', 'labels'], message: expect.stringMatching(refusal) },
    ]);
  });

  test('of a new run, and no run begins', async () => {
    const agent = makeAgent();
    await expect(agent.start('go', { labels })).rejects.toEqual(refused);
    await expect(agent.run('go', { labels, chat: 'own' })).rejects.toEqual(refused);
    expect(() => agent.input('go', { labels })).toThrow(refused);
    expect(() => agentInput('go', { model: scripted([DONE]) }, { labels })).toThrow(refused);
    expect(await agent.store.list()).toEqual({ runs: [] });
  });

  test('of a run that continues one of a chat', async () => {
    const agent = makeAgent();
    const first = await agent.start('go', { chat: 'c' });
    await first.settled();
    await expect(agent.start('on', { labels, continues: first.id })).rejects.toEqual(refused);
  });

  test('of POST /runs, and of a run that continues one', async () => {
    const server = makeApp({ turns: [DONE, DONE] });
    const { runId: continues } = await server.begin();
    for (const body of [{ labels }, { labels, continues }]) {
      const response = await server.send('POST', '/runs', { input: 'go', ...body });
      expect(await errorOf(response)).toMatchObject({
        status: 400,
        code: 'input-invalid',
        message: expect.stringMatching(refusal),
      });
    }
    expect((await server.store.list()).runs).toHaveLength(1);
  });
});

describe('the chat of a run', () => {
  it('is its label, beside those that are given', async () => {
    const agent = makeAgent();
    const run = await agent.start('go', { chat: 'c', labels: { user: '7' } });
    expect((await agent.store.get(run.id))?.labels).toEqual({ user: '7', chat: 'c' });
    await expect(agent.start('go', { chat: '' })).rejects.toMatchObject({ code: 'input-invalid' });
  });

  it('is inherited by a run that continues it, and replaced by a chat of its own', async () => {
    const agent = makeAgent();
    const run = await agent.start('go', { chat: 'c', labels: { user: '7' } });
    await run.settled();
    const next = await agent.start('on', { continues: run.id });
    await next.settled();
    const other = await agent.start('on', { continues: run.id, chat: 'd' });
    const labelsOf = async (id: string) => (await agent.store.get(id))?.labels;
    expect(await labelsOf(next.id)).toEqual({ user: '7', chat: 'c' });
    expect(await labelsOf(other.id)).toEqual({ user: '7', chat: 'd' });
  });

  it('is inherited by the runs of sub-agents', async () => {
    const agent = makeOffice([]);
    await (await agent.start('go', { chat: 'c' })).settled();
    const { runs } = await agent.store.list();
    expect(runs.map(({ labels }) => labels)).toEqual([{ chat: 'c' }, { chat: 'c' }]);
  });

  it('is inherited over POST /runs, and lists are filtered by it', async () => {
    const server = makeApp({ turns: [DONE, DONE] });
    const agent = createAgent({ name: 'desk', store: server.store, model: scripted([DONE]) });
    const run = await agent.start('go', { chat: 'c' });
    await run.settled();
    await server.begin({ input: 'on', continues: run.id });
    const listed = await (await server.send('GET', '/runs?label=chat%3Dc')).json();
    expect((listed as { runs: RunView[] }).runs.map(({ labels }) => labels)).toEqual([
      { chat: 'c' },
      { chat: 'c' },
    ]);
  });
});
