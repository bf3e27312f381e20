/** What the three APIs of model providers share: the door of the room. */
export {
  type AnswerEnd,
  type AnswerEvent,
  type AnswerWriter,
  addUsages,
  annotationsOf,
  argumentOf,
  type CallEnd,
  NO_USAGE,
  type PlacedCall,
  refusalIn,
  resultsIn,
} from './answer/answer-event.ts';
export { openSeal } from './answer/opaque-seal.ts';
export { providedCall } from './answer/turn-items.ts';
export { type ItemPlace, itemIdOf, readItemId, readResponseId, responseIdOf } from './answer/wire-ids.ts';
export type { WebhooksConfig } from './config/gateway-config.ts';
export { describeGatewayConfig, EMPTY_GATEWAY, type GatewayConfig } from './config/gateway-config.ts';
export { readGatewayConfig } from './config/read-gateway-config.ts';
export { GatewayService, type RequestConversation } from './gateway-service.ts';
export { DONE, failureOf, finishedResponse, respondWithEvents, type StreamFormat } from './live/respond.ts';
export type { LiveResponse, LiveResponses, MakeWriter } from './live/response-feed.ts';
export { resolveInput } from './plan/input-items.ts';
export { References } from './plan/references.ts';
export { compactionItem, compactionOf } from './request/compaction-items.ts';
export {
  customCall,
  type GatewayRequest,
  type InputItem,
  OPENAI,
  OPENAI_NAMES,
  outputOf,
  recordOf,
  type SentItem,
  sent,
  sentMessage,
  wirePart,
} from './request/gateway-request.ts';
export {
  assertTools,
  type ChosenTool,
  MOST_TOOLS,
  type RequestTool,
  type RequestToolChoice,
  readTool,
  type ToolNames,
  toolChoice,
} from './request/request-tools.ts';
export {
  detail,
  readShared,
  samplingOptions,
  sharedParameters,
  tokens,
} from './request/shared-parameters.ts';
export { callNamer } from './runs/continued-run.ts';
export {
  eventsOf,
  type FoundResponse,
  inputOf,
  mayRetry,
  type ResponseLibrary,
  type RunResponses,
  requestIdOf,
  type Span,
  UnstoredChain,
  type VisibleResponses,
} from './runs/response-library.ts';
export {
  builtinOf,
  type Exposed,
  type ExposedTool,
  isCustomTool,
  isServerTool,
  RESPONSES,
  type RequestKey,
  type ResponseHead,
  toolNamed,
} from './runs/response-spec.ts';
