/** `agentchart/testing`: what an adapter or a store of one's own must pass, and servers to replay recordings with. */
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
} from '../../adapters/conformance.ts';
export type { RecordedEvent, RecordedRun, RecordedTool, Recording } from '../../engine/replay/record-run.ts';
export type { Outcome } from '../../engine/run/describe-outcome.ts';
export { type StoreCheck, type StoreUnderTest, storeChecks } from '../../stores/conformance.ts';
export type { ToolSamples } from '../explore/describe-agent.ts';
export { type ExploreOptions, explore } from '../explore/explore.ts';
export type { PathEntry } from '../explore/explorer.ts';
export type { Invariant, Invariants, Moment } from '../explore/invariants/invariant.ts';
export type { BreachReport, ExplorationReport } from '../explore/report.ts';
export { playRun } from './play/play-run.ts';
