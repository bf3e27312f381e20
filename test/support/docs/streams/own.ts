import { classifyTurn, toolResultFrom } from './agentchart.ts';

const turn = {
  text: 'I look it up.',
  toolCalls: [
    { id: 'call_1', name: 'lookup_order', arguments: { orderId: 'A-1001' } },
    { id: 'call_2', name: 'lookup_order', arguments: '{"orderId":"A-1002"}' },
  ],
  finishReason: 'stop' as const,
};
const answer = classifyTurn(turn);
if (answer.type === 'tool_calls') console.log(answer.toolCalls.map(call => call.input));

console.log(toolResultFrom({ callId: 'call_1', output: { status: 'shipped' } }));
console.log(toolResultFrom({ callId: 'call_2', output: '{"status":"shipped"}' }));
