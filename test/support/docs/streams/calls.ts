import { toolCallsOf, toolResultFrom, userMessage } from './agentchart.ts';
import { scripted } from './scripted.ts';

const model = scripted([
  {
    toolCalls: [
      { name: 'lookup_order', arguments: { orderId: 'A-1001' } },
      { name: 'lookup_order', arguments: '{"orderId":' },
    ],
  },
]);
const request = {
  transcript: [userMessage('Where are my orders?')],
  tools: [],
  toolChoice: 'auto' as const,
  settings: {},
};
const { signal } = new AbortController();

for await (const call of toolCallsOf(model.stream(request, { signal }))) {
  const output = call.error === undefined ? { status: 'shipped' } : new Error(call.error);
  console.log(toolResultFrom({ callId: call.callId, output }).isError, call.name);
}
