import { expect, it } from 'vitest';
import { complete, streamChat } from '../../support/responses/chat.ts';
import { DIALECTS, DialectProvider } from '../../support/responses/dialect-provider.ts';
import { gatewayOn } from '../../support/responses/gateway-on.ts';

const { provider, gateway } = await gatewayOn(DialectProvider, {
  config: folder => ({ mcp_servers: { desk: folder.server({ hidden: true }) } }),
});

it('citations have their places in the content of the message, streamed and not', async () => {
  const source = { url: 'https://example.org/', title: 'Example' };
  const cited = {
    type: 'output_text',
    text: 'It is so.',
    annotations: [{ type: 'url_citation', ...source, start_index: 3, end_index: 5 }],
  };
  const message = { type: 'message', id: 'msg_1', role: 'assistant', status: 'completed', content: [cited] };
  const turns = [
    { text: 'Let me see.', calls: [{ name: 'echo', arguments: { text: 'x' } }] },
    { items: [message] },
  ];
  provider.play(...turns, ...turns);
  const body = { model: DIALECTS.responses, messages: [{ role: 'user', content: 'go' }] };
  const [choice] = (await complete(gateway, body)).choices;
  expect(choice?.message).toMatchObject({
    content: 'Let me see.\n\nIt is so.',
    annotations: [{ type: 'url_citation', url_citation: { ...source, start_index: 16, end_index: 18 } }],
  });
  const chunks = await streamChat(gateway, body);
  const deltas = chunks.flatMap(({ choices }) => choices.map(({ delta }) => delta));
  expect(deltas.flatMap(delta => delta.annotations ?? [])).toEqual(choice?.message.annotations);
});
