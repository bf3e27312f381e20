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
export { type StoreCheck, type StoreUnderTest, storeChecks } from '../../stores/conformance.ts';
