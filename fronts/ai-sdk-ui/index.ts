/**
 * `agentchart/ai-sdk-ui`: runs for `useChat` of the AI SDK. `fold-run.ts` projects the events and deltas of a run into
 * chunks of UI messages. `stream-message.ts` uses it to stream one answer, `messages.ts` to read the history from
 * journals, and `chat-handler.ts` handles the requests of a page.
 */
export type { Authorize, AuthorizedCaller } from '../../access/caller.ts';
export type { AiSdkVersion } from './ai-sdk-6.ts';
export { type ChatHandlerOptions, createChatHandler } from './chat/chat-handler.ts';
export type { ProgressData, RunData, UIMessage, UIMessageChunk, UIMessagePart } from './chunk.ts';
export type { UIError } from './describe-error.ts';
export { toUIMessages, type UIMessageOptions } from './messages.ts';
export { toUIMessageResponse, type UIResponseOptions } from './respond.ts';
