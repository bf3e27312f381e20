/** What the examples of docs/streams.md import from `agentchart`. */
export { classifyTurn } from '../../../adapters/classify-turn.ts';
export { streamAndClassify } from '../../../adapters/stream-and-classify.ts';
export { toolCallFrom } from '../../../adapters/tool-call-from.ts';
export { toolCallsOf } from '../../../adapters/tool-calls-of.ts';
export { toolResultFrom } from '../../../adapters/tool-result-from.ts';
export { watchTurn } from '../../../adapters/watch-turn.ts';
export { userMessage } from '../../../protocol/message.ts';
