import type { Call, Context } from '../../machines/context.ts';
import type { ChartState } from '../../machines/step.ts';
import type { ChartEvent, QualifiedCall } from '../../protocol/event.ts';
import type { Item } from '../../protocol/item.ts';
import { userMessage } from '../../protocol/message.ts';
import { finishReasonSchema } from '../../protocol/turn.ts';
import {
  answering,
  approving,
  calling,
  failing,
  forClient,
  gated,
  makeCall,
  makeTurn,
  placeOf,
  rejecting,
  saying,
  settling,
  stamp,
  starting,
  type Told,
} from './builders.ts';

/** An event and whether the chart has to take it, by the rules and not by the chart. */
export type Offer = { event: ChartEvent; fits: boolean };

/** What the model may come up with, and what people do besides deciding. */
export type World = {
  /** Rounds of calls of the first turn; later turns make a safe call or a gated one. */
  rounds: readonly QualifiedCall[][];
  /** Whether decisions are made for later calls too. */
  sticky: boolean;
  /** Whether somebody changes the transcript, once a turn, and the parameters. */
  edits?: boolean;
};

/** Every event worth offering in a state. Nothing fits a run that has ended. */
export function generateEvents(state: ChartState, world: World): Offer[] {
  const { context } = state;
  const runs = state.status === 'active';
  const offers: Offer[] = [];
  const offer = (fits: boolean, ...told: Told[]) => {
    for (const one of told) offers.push({ event: stamp(context, one), fits: fits && runs });
  };
  offerInputs(context, offer);
  if (world.edits === true) offerEdits(placeOf(state), context, offer);
  for (const call of context.calls) offerForCall(context, call, world, offer);
  offerReports(placeOf(state), context, world, offer);
  offer(false, approving('unknown'), receiving('unknown'), resolving('unknown', { type: 'retry' }));
  for (const report of REPORTS) {
    offer(false, { ...report, generation: context.generation - 1 });
    if (!fitsPlace(report.type, placeOf(state))) offer(false, report);
  }
  return offers;
}

type OfferEvents = (fits: boolean, ...told: Told[]) => void;

function offerInputs({ inbox, paused, steps, turns, now }: Context, offer: OfferEvents): void {
  if (inbox.length === 0) offer(true, saying(`message ${turns}, ${now}`));
  offer(!paused, { type: 'pause.requested' });
  offer(paused, { type: 'run.unpaused' });
  if (steps === 0) offer(true, { type: 'step.requested' });
  offer(true, { type: 'run.cancelled', unsettled: [] });
}

/** Edits are for runs at rest, and leave out no call that was handed over or may have happened. */
function offerEdits(place: string, context: Context, offer: OfferEvents): void {
  const { calls, transcript, turns, lastTurn, edited } = context;
  const rests = place.startsWith('resting');
  const free = calls.every(({ status }) => ['ready', 'gated', 'settled'].includes(status));
  const says = userMessage(`edited ${turns}`);
  const answers: Item = { type: 'message', role: 'assistant', content: [{ type: 'text', text: 'mine' }] };
  offer(true, { type: 'params.changed', params: { toolChoice: 'auto' } });
  if (edited) return;
  offer(rests && free, { type: 'transcript.edited', items: [says], calls: [] });
  if (lastTurn !== null) {
    offer(rests && free, { type: 'transcript.edited', items: [says, answers], calls: [] });
  }
  const known = makeCall(`known-${turns}`);
  const items = [...makeTurn({ calls: [known] }).items, says];
  const results = [{ callId: known.callId, output: 'known', isError: false }];
  offer(rests && free, { type: 'transcript.edited', items, calls: [known], results });
  if (calls.length === 0) return;
  const kept = calls.map(({ callId, name, input, digest, sideEffect, reconcilable, executedBy, gate }) => ({
    ...{ callId, name, input, digest, sideEffect, reconcilable, executedBy, gate },
  }));
  offer(rests, { type: 'transcript.edited', items: [...transcript, says], calls: kept });
}

function offerForCall({ now, sticky }: Context, call: Call, world: World, offer: OfferEvents): void {
  const { callId, status, expiresAt } = call;
  const decidable = status === 'gated' && (expiresAt === undefined || now + 1 < expiresAt);
  offer(decidable, approving(callId));
  offer(status === 'waiting', receiving(callId));
  offer(status === 'doubted', resolving(callId, { type: 'retry' }));
  if (status === 'gated') {
    const digest = call.digest;
    offer(false, approving(callId, { digest: 'of something else' }));
    if (expiresAt !== undefined) offer(false, { ...approving(callId), at: expiresAt });
    offer(decidable, rejecting(callId, { reason: 'no' }));
    offer(
      decidable,
      { type: 'approval.decided', callId, digest, decision: { type: 'answer', output: 'a person' } },
      {
        type: 'approval.decided',
        callId,
        digest,
        decision: { type: 'approve', input: { edited: true }, editDigest: `edited ${callId}` },
      },
    );
    if (world.sticky && sticky.length === 0) {
      offer(decidable, approving(callId, { sticky: true }), rejecting(callId, { sticky: true }));
    }
  }
  if (status === 'waiting') offer(true, { ...receiving(callId), isError: true });
  if (status === 'doubted') {
    offer(true, resolving(callId, { type: 'happened', output: 1 }));
    offer(true, resolving(callId, { type: 'failed', reason: 'lost' }));
  }
}

const receiving = (callId: string) =>
  ({ type: 'result.received', callId, output: `result of ${callId}`, isError: false }) as const;

type Resolution = Extract<Told, { type: 'doubt.resolved' }>['resolution'];

const resolving = (callId: string, resolution: Resolution): Told => ({
  type: 'doubt.resolved',
  callId,
  resolution,
});

function offerReports(place: string, context: Context, world: World, offer: OfferEvents): void {
  switch (place) {
    case 'turn.planning':
    case 'turn.finalStreaming':
      return offerTurnReports(context, world, offer);
    case 'executingTools':
      for (const call of context.calls) offerToolReports(context, call, offer);
      return;
    case 'finishing':
      return offer(
        true,
        { type: 'finishers.completed' },
        { type: 'finishers.completed', text: 'checked', output: { checked: true } },
        { type: 'finishers.rejected', feedback: 'again' },
      );
    default:
      if (context.timer === null) return;
      offer(true, { type: 'timer.fired', at: Math.max(context.timer, context.now + 1) });
      if (context.timer > context.now + 1) offer(true, { type: 'timer.fired' });
  }
}

function offerTurnReports(context: Context, { rounds }: World, offer: OfferEvents): void {
  const { turns, now } = context;
  const name = (call: QualifiedCall, index: number): QualifiedCall => {
    const callId = `${call.callId}-${turns}-${index}`;
    const expires = call.expiresAt === undefined ? {} : { expiresAt: now + call.expiresAt };
    return { ...call, callId, digest: `digest of ${callId}`, ...expires };
  };
  const safe = [makeCall('safe')].map(name);
  const pay = [gated('pay')].map(name);
  offer(true, { type: 'text.started' }, { type: 'calls.started' }, answering('done'), calling(...pay));
  offer(true, failing({ retryable: false }), failing(), failing({ retryAt: now + 10_000 }));
  for (const finishReason of finishReasonSchema.options) {
    offer(true, makeTurn({ finishReason }), makeTurn({ finishReason, calls: safe, text: 'so far' }));
  }
  if (turns === 0) for (const round of rounds) offer(true, calling(...round.map(name)));
}

function offerToolReports({ calls, now }: Context, call: Call, offer: OfferEvents): void {
  const { callId, status, attempt } = call;
  const running = status === 'running';
  const acting = running || status === 'reconciling';
  offer(acting || status === 'queued', starting(callId, attempt + 1));
  offer(acting, settling(callId), { type: 'tool.doubted', callId, reason: 'who knows' });
  offer(
    running,
    { type: 'tool.interrupted', callId },
    { type: 'tool.suspended', callId, childRunId: 'child' },
  );
  if (!acting) return;
  offer(true, settling(callId, 'it broke', true));
  const expiries = calls.flatMap(({ status: other, expiresAt = 0 }) =>
    other === 'gated' ? [expiresAt] : [],
  );
  const late = Math.max(0, ...expiries);
  if (late > now) offer(true, { ...settling(callId), at: late + 1 });
}

const REPORTS: readonly Told[] = [
  { type: 'text.started' },
  { type: 'calls.started' },
  answering('stale'),
  failing(),
  starting('safe-0-0'),
  settling('safe-0-0'),
  { type: 'tool.interrupted', callId: 'safe-0-0' },
  { type: 'tool.doubted', callId: 'safe-0-0', reason: 'stale' },
  { type: 'tool.suspended', callId: 'safe-0-0', childRunId: 'child' },
  { type: 'timer.fired' },
  { type: 'finishers.completed' },
  { type: 'finishers.rejected', feedback: 'stale' },
];

/** Where a report belongs. A timer's generation is its own, so it cannot be due where none was started. */
function fitsPlace(report: Told['type'], place: string): boolean {
  if (report.startsWith('tool.')) return place === 'executingTools';
  if (report.startsWith('finishers.')) return place === 'finishing';
  if (report === 'timer.fired') return place === 'backingOff' || place.startsWith('resting');
  return place.startsWith('turn.');
}

/** One round for each kind of call there is: 48 kinds, those that cannot run included. */
export function everyCall(): QualifiedCall[][] {
  const flags = [false, true];
  return (['none', 'idempotent', 'once'] as const).flatMap(sideEffect =>
    flags.flatMap(reconcilable =>
      flags.flatMap(gate =>
        (['engine', 'client'] as const).flatMap(executedBy =>
          flags.map(broken => [
            makeCall('one', {
              name: gate ? 'pay' : 'look',
              sideEffect,
              reconcilable,
              gate,
              executedBy,
              ...(broken ? { error: 'unknown tool' } : {}),
            }),
          ]),
        ),
      ),
    ),
  );
}

const expiring = gated('expiring', { expiresAt: 500 });

/** Rounds of two and three calls in which each kind meets each other kind that matters. */
export const MIXED_ROUNDS: readonly QualifiedCall[][] = [
  [makeCall('safe'), makeCall('safe')],
  [makeCall('safe'), gated('pay')],
  [gated('pay'), expiring],
  [forClient('ask'), makeCall('once', { sideEffect: 'once' })],
  [makeCall('once', { sideEffect: 'once' }), makeCall('once', { sideEffect: 'once', reconcilable: true })],
  [makeCall('bad', { error: 'bad arguments' }), expiring, forClient('ask', { gate: true })],
  [makeCall('safe'), expiring, forClient('ask')],
];
