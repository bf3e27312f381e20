/**
 * `agentchart/ai-sdk-ui`: runs for `useChat` of the AI SDK. `write-messages.ts` writes a run's story as chunks of
 * UI messages, of which `respond.ts` streams one message, and `messages.ts` makes the history. `chat/` handles the
 * requests of a page.
 */
export type { Authorize, AuthorizedCaller } from '../../access/caller.ts';
export type { Agents } from '../../server/agent-names.ts';
export type { Handler, HandlerOptions } from '../../server/handler.ts';
export { type ChatHandlerOptions, createChatHandler } from './chat/chat-handler.ts';
export { toUIMessages, type UIMessageOptions } from './messages.ts';
export { toUIMessageResponse, type UIResponseOptions } from './respond.ts';
export type {
  AiSdkVersion,
  ProgressData,
  QuestionData,
  RunData,
  UIError,
  UIMessage,
  UIMessagePart,
} from './ui-message.ts';
