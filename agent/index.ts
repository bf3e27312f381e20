/**
 * `agentchart`: the public API. Create an agent with `createAgent`, give it tools made with `tool`, and start
 * runs with `agent.start`. This file re-exports what users need from the engine, the stores and the text
 * helpers; the agent itself is in this folder:
 *
 * - `agent.ts`: `Agent` and `createAgent`; `agent-options.ts`: its options, validated.
 * - `begin-journal.ts`: the first event of a run; `restore-run.ts`: runs from snapshots; `map-inputs.ts`: a run for each
 *   of many inputs; `delete-runs.ts`: the deletion of all runs with a label.
 * - `as-tool.ts` and `sub-agents.ts`: agents as tools of other agents.
 * - `machine.ts`: `agentchart/machine`, the chart for users who run their own actor.
 */
export {
  type CallLike,
  type ClassifiedTurn,
  classifyTurn,
  collectTurn,
  type ResultLike,
  type StreamAndClassifyOptions,
  streamAndClassify,
  type TurnRequest,
  toolCallFrom,
  toolCallsOf,
  toolResultFrom,
  WatchedTurn,
  watchTurn,
} from '../adapters/streams.ts';
export { textOfResult } from '../adapters/turn/content.ts';
export type { LiveOptions } from '../engine/driver/live.ts';
export { type FaultPoint, type Host, systemHost } from '../engine/host/host.ts';
export {
  type CallStorage,
  type CurrentCall,
  currentCall,
  trackCalls,
} from '../engine/host/running-calls.ts';
export { type RedactRunOptions, redactRun } from '../engine/journal/redaction/redact-run.ts';
export type { CommandResult, SubmitResult } from '../engine/log/refusal.ts';
export type { MigrateOptions } from '../engine/migrations/migrate-run.ts';
export type { CallReference } from '../engine/run/known-commands.ts';
export type { Run, RunHappening } from '../engine/run/run.ts';
export type {
  Instructions,
  PrepareTurn,
  Retry,
  Summarize,
  TurnPreparation,
} from '../engine/services/definition.ts';
export type { StoryEvent, TurnPart } from '../engine/story/story-event.ts';
export type {
  VersionDifference,
  VersionReport,
  VersionVerdict,
} from '../engine/versions/compare-versions.ts';
export type { JournalMigration, JournalVersion } from '../engine/versions/migrate-journal.ts';
export type { Context } from '../machines/context.ts';
export { decideNextAction } from '../machines/decide-next-action.ts';
export { toolResults } from '../machines/tool-results.ts';
export type { Capabilities, ModelAdapter } from '../protocol/adapter.ts';
export type { Limits, Prices } from '../protocol/config.ts';
export { type ContentPart, content } from '../protocol/content/content.ts';
export type { ContentOutput } from '../protocol/content/read-content.ts';
export type { Breakpoint } from '../protocol/debugger/breakpoint.ts';
export type { Delta, NextAction } from '../protocol/effect.ts';
export { EngineError, type EngineErrorCode, InDoubt, ProviderError } from '../protocol/error.ts';
export type { JournalEntry, Question, RunEvent } from '../protocol/event.ts';
export type {
  AnswerContext,
  AnswerGuardrail,
  AskVerdict,
  Guardrail,
  GuardrailContext,
  Guardrails,
  InputGuardrail,
  ToolInputContext,
  ToolInputGuardrail,
  ToolOutputContext,
  ToolOutputGuardrail,
  Verdict,
} from '../protocol/guardrail.ts';
export type { Item, Part } from '../protocol/item.ts';
export type { JsonObject, JsonValue } from '../protocol/json.ts';
export type { Labels } from '../protocol/listing/label.ts';
export type { Totals, TotalsQuery } from '../protocol/listing/totals.ts';
export { userMessage } from '../protocol/message.ts';
export type { HistoryCall, RuleVerdict } from '../protocol/rule.ts';
export type {
  EditCallOptions,
  EditTurnOptions,
  RunCommand,
} from '../protocol/run-command.ts';
export type {
  CancelledRun,
  FailedRun,
  FinishedRun,
  OpenCall,
  Settled,
  WaitingRun,
} from '../protocol/run-view.ts';
export {
  type ListFilter,
  listAll,
  type Owner,
  type PruneOptions,
  type Redacted,
  type RedactOptions,
  type RunList,
  type RunRecord,
  type RunStatus,
  type Store,
  type TotalsFilter,
} from '../protocol/store.ts';
export type {
  AgentTool,
  Approval,
  ApprovalCall,
  CallView,
  Reconciliation,
  SideEffect,
  SubAgentTool,
  Tool,
  ToolCallContext,
  ToolSource,
} from '../protocol/tool.ts';
export type { CallError, CallOutput, ToolResult } from '../protocol/tool-result.ts';
export type {
  FinishReason,
  ModelRequest,
  ModelTurn,
  Settings,
  ToolCall,
  ToolChoice,
  TurnDelta,
  Usage,
} from '../protocol/turn.ts';
export { atMost, type Condition, first, needs, never, spendOf } from '../rules/condition.ts';
export {
  type Rule,
  type RuleAnswer,
  type RuleAsk,
  type RuleFunction,
  type RuleOptions,
  type RuleRefusal,
  rule,
} from '../rules/rule.ts';
export { memory } from '../stores/memory.ts';
export {
  type CitationOptions,
  citationFilter,
  numberCitations,
  type Source,
} from '../text/citations.ts';
export { hideHtmlComments } from '../text/hide-html-comments.ts';
export type { TextFilter } from '../text/text-filter.ts';
export {
  estimateTokens,
  type FitOptions,
  fitTokens,
  keepLast,
  type Trim,
  type TrimOptions,
} from '../text/trim-transcript.ts';
export type { ApprovalRule } from '../tools/approval-rule.ts';
export { type Ask, type AskOptions, Unanswered } from '../tools/ask.ts';
export {
  type BackgroundReceipt,
  type ToolOptions,
  type ToolPreparation,
  type ToolRunContext,
  tool,
} from '../tools/tool.ts';
export { Agent, createAgent, isAgent, type OpenOptions } from './agent.ts';
export type { AgentOptions, CompactionOptions, OutputSchema } from './agent-options.ts';
export type { AsToolOptions } from './as-tool.ts';
export type { StartOptions } from './begin-journal.ts';
export { type DeleteRunsOptions, deleteRuns } from './delete-runs.ts';
export type {
  AgentListener,
  DeliveryContext,
  JournaledEvent,
  LastingListener,
} from './listening/agent-listeners.ts';
export { type WebhookOptions, type WebhookTopic, webhook } from './listening/webhook.ts';
export type { MapLimits, MapOptions, MapProgress, MapResult, NotStarted } from './map-inputs.ts';
export type { DeleteThreadOptions, Thread, ThreadTotals } from './thread.ts';
