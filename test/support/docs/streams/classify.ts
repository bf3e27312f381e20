import { streamAndClassify } from './agentchart.ts';
import { scripted } from './scripted.ts';

const model = scripted([
  { text: 'I look it up.', toolCalls: [{ name: 'lookup_order', arguments: { orderId: 'A-1001' } }] },
]);

const { turn, ...answer } = await streamAndClassify(
  model,
  { transcript: 'Where is order A-1001?' },
  { onText: text => process.stdout.write(text) },
);
if (answer.type === 'tool_calls') {
  for (const { name, input, error } of answer.toolCalls) console.log(name, error ?? input);
} else console.log(answer.text);
console.log(turn.finishReason);
