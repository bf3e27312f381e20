/**
 * `agentchart/testing`: support for tests of agents, adapters and stores.
 * - agents: `ManualHost` (a manual clock), `explore` (every path of the chart), `exploreFrom` (from where a run stands),
 *   `checkPath` (a path that broke an invariant or a rule), `toHold` (a matcher for their reports), `backtest` (rules tried
 *   on stored runs), `regress` (recorded runs on the agent as it is now), `playRun` (a recorded run);
 * - adapters and stores: `adapterChecks` and `storeChecks`, the conformance suites;
 * - `replayFetch` and `startReplayServer`: recorded HTTP responses.
 */
export {
  type AdapterCheck,
  type AdapterUnderTest,
  type Answer,
  adapterChecks,
  atRandom,
  type Exchange,
  inPiecesOf,
  inTwoEverywhere,
  type OpenOptions,
  oneByOne,
  type ReplayFetch,
  type ReplayServer,
  replayFetch,
  type SeenRequest,
  splitAt,
  startReplayServer,
} from '../adapters/conformance.ts';
export type { Outcome } from '../engine/replay/describe-outcome.ts';
export type { RecordedEvent, RecordedRun, RecordedTool, Recording } from '../engine/replay/record-run.ts';
export { type BacktestOptions, backtest } from '../explore/backtest/backtest.ts';
export type {
  AskedPeople,
  BacktestCase,
  BacktestedApproval,
  BacktestedRule,
  BacktestReport,
  CallOutcome,
  Counts,
  Unjudged,
  UnjudgedCode,
} from '../explore/backtest/report.ts';
export { type CheckedPath, type CheckPathOptions, checkPath } from '../explore/check-path.ts';
export type { ToolSamples } from '../explore/describe-agent.ts';
export { type ExploreOptions, explore } from '../explore/explore.ts';
export { exploreFrom, type ForwardReport } from '../explore/explore-from.ts';
export type { PathEntry } from '../explore/explorer.ts';
export type { Invariant, Invariants, Moment } from '../explore/invariant.ts';
export type { BreachReport, ExplorationReport, RuleReport, UnfinishedWalks } from '../explore/report.ts';
export type { RuleView } from '../explore/ruled-agents.ts';
export type { FoundDifference, Paired } from '../regress/played-run.ts';
export type { RegressReport } from '../regress/report.ts';
export type { Difference, Figure, PlayedRun, ToolChange } from '../regress/report-sums.ts';
export { type StoreCheck, type StoreUnderTest, storeChecks } from '../stores/conformance.ts';
export { ManualHost, type ManualHostOptions } from './manual-host.ts';
export { playRun } from './play/play-run.ts';
export {
  type RecordedRuns,
  type RegressOptions,
  type RegressProgress,
  regress,
  type Score,
  type ScoredRun,
} from './regress/regress.ts';
export { toHold } from './to-hold.ts';
