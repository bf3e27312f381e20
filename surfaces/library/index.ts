export { type ClassifiedTurn, classifyTurn } from '../../adapters/classify-turn.ts';
export { collectTurn } from '../../adapters/collect-turn.ts';
export {
  type StreamAndClassifyOptions,
  streamAndClassify,
  type TurnRequest,
} from '../../adapters/stream-and-classify.ts';
export { type CallLike, toolCallFrom } from '../../adapters/tool-call-from.ts';
export { toolCallsOf } from '../../adapters/tool-calls-of.ts';
export { type ResultLike, toolResultFrom } from '../../adapters/tool-result-from.ts';
export { WatchedTurn, watchTurn } from '../../adapters/watch-turn.ts';
export {
  type CitationOptions,
  citationFilter,
  numberCitations,
  type Source,
} from '../../engine/citations.ts';
export type { RunCommand } from '../../engine/command.ts';
export type {
  VersionDifference,
  VersionReport,
  VersionVerdict,
} from '../../engine/compare-versions.ts';
export { type CallStorage, type CurrentCall, currentCall, trackCalls } from '../../engine/current-call.ts';
export type {
  Finisher,
  FinisherInput,
  FinisherOutcome,
  PrepareTurn,
  Retry,
  ToolResult,
  TurnPreparation,
} from '../../engine/definition.ts';
export type { CommandResult, SubmitResult } from '../../engine/explain-refusal.ts';
export { hideHtmlComments } from '../../engine/hide-html-comments.ts';
export { type FaultPoint, type Host, systemHost } from '../../engine/host.ts';
export type { LiveOptions } from '../../engine/live.ts';
export type { JournalMigration, JournalVersion } from '../../engine/migrate-journal.ts';
export type { MigrateOptions } from '../../engine/migrate-run.ts';
export { type Redacted, type RedactOptions, redactRun } from '../../engine/redact-run.ts';
export { toolResults } from '../../engine/results.ts';
export type { Run, RunHappening } from '../../engine/run.ts';
export type { OpenCall, Settled } from '../../engine/settled.ts';
export type { TextFilter } from '../../engine/text-filter.ts';
export {
  estimateTokens,
  type FitOptions,
  fitTokens,
  keepLast,
  type Trim,
  type TrimOptions,
} from '../../engine/trim-transcript.ts';
export type { Context } from '../../machines/context.ts';
export { decideNextAction } from '../../machines/decide-next-action.ts';
export type { Capabilities, ModelAdapter } from '../../protocol/adapter.ts';
export type { Limits, Prices } from '../../protocol/config.ts';
export type { Delta, NextAction } from '../../protocol/effect.ts';
export { EngineError, type EngineErrorCode, InDoubt, ProviderError } from '../../protocol/error.ts';
export type { JournalEntry, RunEvent } from '../../protocol/event.ts';
export type { Item, Part } from '../../protocol/item.ts';
export type { JsonObject, JsonValue } from '../../protocol/json.ts';
export { userMessage } from '../../protocol/message.ts';
export type { Owner, RunRecord, RunStatus, Store } from '../../protocol/store.ts';
export type {
  Approval,
  Reconciliation,
  SideEffect,
  Tool,
  ToolCallContext,
  ToolSource,
} from '../../protocol/tool.ts';
export type {
  FinishReason,
  ModelRequest,
  ModelTurn,
  Settings,
  ToolCall,
  ToolChoice,
  TurnDelta,
  Usage,
} from '../../protocol/turn.ts';
export { memory } from '../../stores/memory.ts';
export { type ToolOptions, tool } from '../../tools/tool.ts';
export { Agent, isAgent } from './agent.ts';
export type { AgentOptions, OutputSchema } from './agent-options.ts';
export type { AsToolOptions } from './as-tool.ts';
export type { StartOptions } from './begin-journal.ts';
export { createAgent } from './create-agent.ts';
