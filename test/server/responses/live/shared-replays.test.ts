import { expect, test } from 'vitest';
import { memory } from '../../../../stores/memory.ts';
import { Gateway, type Resource, runOf } from '../../../support/responses/gateway.ts';

const ANSWER = 'The secret word is mellon.';

async function withResponse(
  attempt: (parts: { gateway: Gateway; response: Resource; reads(): number }) => Promise<void>,
): Promise<void> {
  const store = memory();
  let reads = 0;
  const { read } = store;
  store.read = async (...asked) => {
    reads += 1;
    return await read.apply(store, asked);
  };
  const gateway = new Gateway({ plain: [{ text: ANSWER }] }, { store });
  try {
    const response = await gateway.create({ model: 'plain', input: 'go' });
    await attempt({ gateway, response, reads: () => reads });
  } finally {
    await gateway.close();
  }
}

async function replay(gateway: Gateway, { id }: Resource, query = ''): Promise<string> {
  return await (await gateway.send('GET', `/${id}?stream=true${query}`)).text();
}

test('readers that replay a response from its journal at the same time share one translation', async () => {
  await withResponse(async ({ gateway, response, reads }) => {
    const query = '&starting_after=1000000';
    let before = reads();
    const alone = await replay(gateway, response, query);
    const once = reads() - before;
    before = reads();
    const texts = await Promise.all(Array.from({ length: 20 }, () => replay(gateway, response, query)));
    expect(new Set([...texts, alone]).size).toBe(1);
    expect(alone).toContain(ANSWER);
    expect(reads() - before).toBeLessThanOrEqual(once + 1);
  });
});

test('a replay after a redaction shows nothing of what was redacted', async () => {
  await withResponse(async ({ gateway, response }) => {
    for (const query of ['', '&starting_after=1000000'])
      expect(await replay(gateway, response, query)).toContain(ANSWER);
    const journal = await gateway.store.read(runOf(response));
    const turn = journal.find(({ event }) => event.type === 'turn.completed')?.seq;
    const paths = [`/${turn}/text`, `/${turn}/items/0/content/0/text`];
    await gateway.store.redact(runOf(response), { paths, by: 'ann' });
    for (const query of ['', '&starting_after=1000000'])
      expect(await replay(gateway, response, query)).not.toContain(ANSWER);
  });
});
