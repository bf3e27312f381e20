import { expect, it } from 'vitest';
import { addUp } from '../../../support/responses/add-up.ts';
import { DialectProvider } from '../../../support/responses/dialect-provider.ts';
import { endOf, typesOf } from '../../../support/responses/gateway.ts';
import { gatewayOn } from '../../../support/responses/gateway-on.ts';

const { provider, gateway } = await gatewayOn(DialectProvider);

it('reasoning without text does not repeat the message after it, streamed or not', async () => {
  const reasoning = { type: 'reasoning', id: 'rs_1', summary: [], encrypted_content: 'c2VjcmV0' };
  const turn = { items: [reasoning], text: 'Hello there.' };
  const body = { model: 'openai:any', input: 'hi', include: ['reasoning.encrypted_content'] };
  provider.play(turn, turn);
  const events = await gateway.stream(body);
  expect(addUp(events)).toEqual(endOf(events).output);
  for (const { output } of [endOf(events), await gateway.create(body)]) {
    expect(typesOf(output)).toEqual(['reasoning', 'message']);
    expect(output).toContainEqual(
      expect.objectContaining({ content: [expect.objectContaining({ text: 'Hello there.' })] }),
    );
  }
});
