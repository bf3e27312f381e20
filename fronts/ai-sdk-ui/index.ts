/**
 * `agentchart/ai-sdk-ui`: runs for `useChat` of the AI SDK. `fold-run.ts` is the projection: the events and deltas of a
 * run in, chunks of UI messages out. `stream-message.ts` feeds it from a run for one answer, `messages.ts` from the
 * journals for the history, and `chat-handler.ts` finds out what a page asks for.
 */
export { type ChatCaller, type ChatHandlerOptions, createChatHandler } from './chat/chat-handler.ts';
export type { ProgressData, RunData, UIMessage, UIMessageChunk, UIMessagePart } from './chunk.ts';
export type { UIError } from './describe-error.ts';
export { toUIMessages, type UIMessageOptions } from './messages.ts';
export { toUIMessageResponse } from './respond.ts';
