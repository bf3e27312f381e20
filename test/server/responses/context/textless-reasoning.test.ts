import { afterAll, beforeAll, beforeEach, expect, it, vi } from 'vitest';
import { addUp } from '../../../support/responses/add-up.ts';
import { DialectProvider } from '../../../support/responses/dialect-provider.ts';
import { endOf, Gateway, typesOf } from '../../../support/responses/gateway.ts';

let provider: DialectProvider;
let gateway: Gateway;

beforeAll(async () => {
  provider = await DialectProvider.listen();
  gateway = new Gateway({});
});
beforeEach(() => {
  for (const [name, value] of Object.entries(provider.environment)) vi.stubEnv(name, value);
});
afterAll(async () => {
  await gateway.close();
  await provider.close();
});

it('reasoning without text does not repeat the message after it, streamed or not', async () => {
  const reasoning = { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'c2VjcmV0' };
  const turn = { items: [reasoning], text: 'Hello there.' };
  const body = { model: 'openai:any', input: 'hi', include: ['reasoning.encrypted_content'] };
  provider.play(turn, turn);
  const events = await gateway.stream(body);
  expect(addUp(events)).toEqual(endOf(events).output);
  for (const { output } of [endOf(events), await gateway.create(body)]) {
    expect(typesOf(output).toSorted()).toEqual(['message', 'reasoning']);
    expect(output).toContainEqual(
      expect.objectContaining({ content: [expect.objectContaining({ text: 'Hello there.' })] }),
    );
  }
});
