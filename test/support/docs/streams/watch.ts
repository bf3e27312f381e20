import { userMessage, watchTurn } from './agentchart.ts';
import { scripted } from './scripted.ts';

const model = scripted([{ text: 'It is on its way.' }]);
const request = {
  transcript: [userMessage('Where is order A-1001?')],
  tools: [],
  toolChoice: 'auto' as const,
  settings: {},
};
const { signal } = new AbortController();

const watched = watchTurn(model.stream(request, { signal }));
for await (const delta of watched) {
  if (delta.type === 'text') console.log(watched.text, watched.finishReason);
}
console.log(watched.text, watched.finishReason);
