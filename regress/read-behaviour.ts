import { beginFold, foldEntry } from '../engine/journal/load-run.ts';
import { findCall } from '../machines/calls.ts';
import type { CallStatus, Context } from '../machines/context.ts';
import { dutiesOf } from '../machines/duties.ts';
import { statusOf } from '../machines/status.ts';
import type { ChartState } from '../machines/step.ts';
import { digestCall } from '../protocol/content/digest.ts';
import { EngineError } from '../protocol/error.ts';
import {
  callsOf,
  type Duties,
  type JournalEntry,
  type QualifiedCall,
  type Question,
  type RunEvent,
  type Spent,
} from '../protocol/event.ts';
import { type JsonValue, omitUndefined } from '../protocol/json.ts';
import type { RunStatus } from '../protocol/store.ts';
import type { SideEffect } from '../protocol/tool.ts';
import type { Usage } from '../protocol/turn.ts';

/**
 * What became of a call. `refused`: it did not run, because of a person, a rule, a guardrail, a limit or its input;
 * `open`: the journal ends before its outcome.
 */
type EffectOutcome = 'settled' | 'failed' | 'refused' | 'doubted' | 'open';

/** A call that the model made, and what people did with it. */
export type MadeCall = {
  turn: number;
  name: string;
  /** As the model wrote it, or a guardrail. */
  input: JsonValue;
  /** Equal for calls of one tool whose inputs mean the same. */
  key: string;
  sideEffect: SideEffect;
  /** A person had to decide: whose decision it was. */
  gate?: Duties;
  decision?: 'approve' | 'reject' | 'answer';
  /** What its tool asked people; `early`: before it began. */
  asked?: MadeQuestion[];
  /** With another input, which a person wrote: the key of that. */
  editedKey?: string;
  outcome: EffectOutcome;
  /** Why it was refused, if the journal says so. */
  refusal?: string;
};

/** A question as people read it. Equal ones have the same digest. */
export type MadeQuestion = Pick<Question, 'key' | 'message' | 'digest'> & { early: boolean };

type Figures = { turns: number; tokens: number; cost: number };

/** What a run did, without ids and times. */
export type Behaviour = {
  /** In the order in which the model made them. */
  effects: MadeCall[];
  status: RunStatus;
  /** The number of the last turn that began. */
  lastTurn: number;
  /** The end in words: `finished`, `failed (overloaded)`. */
  end: string;
  output?: JsonValue;
  /** The text of each turn, and the answer. */
  texts: string[];
  /** Without what the runs of sub-agents spent. */
  figures: Figures;
};

/** The name of a call and its input, so that equal calls have equal keys. */
export type KeyOf = (call: { name: string; input: JsonValue }) => string;

/**
 * Reads from a whole journal what its run did. Throws `journal-damaged`, also for a journal without its first entries,
 * and `chart-mismatch`.
 */
export function readBehaviour(
  entries: Iterable<JournalEntry>,
  keyOf: KeyOf = ({ name, input }) => digestCall(name, input),
): Behaviour {
  const reader = new BehaviourReader(keyOf);
  let state: ChartState | undefined;
  for (const entry of entries) {
    const { seq, event } = entry;
    if (state !== undefined) {
      const before = state;
      state = foldEntry(before, entry, before.context.runId);
      reader.take(event, before.context, state.context);
    } else if (event.type === 'run.started' && seq === 1) state = beginFold(event);
    else break;
  }
  if (state !== undefined) return reader.close(state);
  throw new EngineError('journal-damaged', 'A run is compared from its first entry, which is missing.');
}

type Known = Omit<MadeCall, 'outcome'> & { outcome?: MadeCall['outcome'] };

class BehaviourReader {
  readonly #keyOf: KeyOf;
  /** By call id. */
  readonly #effects = new Map<string, Known>();
  readonly #texts: string[] = [];
  readonly #ofChildren: Figures = { turns: 0, tokens: 0, cost: 0 };

  constructor(keyOf: KeyOf) {
    this.#keyOf = keyOf;
  }

  take(event: RunEvent, before: Context, after: Context): void {
    switch (event.type) {
      case 'turn.completed':
        this.#texts.push(event.text);
        for (const call of event.calls) this.#begin(call, before);
        break;
      case 'turn.edited':
        this.#texts.splice(-1, 1, event.text);
        this.#drop(before, event.calls);
        for (const call of event.calls) this.#begin(call, before);
        break;
      case 'transcript.edited': {
        this.#drop(before, event.calls);
        const results = new Map(event.results?.map(result => [result.callId, result]));
        for (const call of event.calls) {
          const result = results.get(call.callId);
          if (result === undefined) this.#begin(call, before);
          else if (!this.#effects.has(call.callId))
            this.#begin(call, before).outcome = result.isError ? 'failed' : 'settled';
        }
        break;
      }
      case 'message.received':
        this.#takeOutcome(event);
        break;
      default:
        if ('callId' in event) this.#change(event, before);
    }
    this.#noteGates(event, after);
  }

  /** An edit may keep an open call as it is, and begin a settled one again. */
  #begin({ callId, name, input, sideEffect }: QualifiedCall, { turn }: Context): Known {
    const key = this.#keyOf({ name, input });
    const known = this.#effects.get(callId);
    const isKept = known !== undefined && known.outcome === undefined;
    if (isKept && (known.key === key || known.editedKey === key)) return known;
    const effect = { turn: known?.turn ?? turn.number, name, input, key, sideEffect };
    this.#effects.set(callId, effect);
    return effect;
  }

  /** An edit takes back the calls that it leaves out, unless they were begun. */
  #drop({ calls }: Context, kept: readonly QualifiedCall[]): void {
    const ids = new Set(kept.map(({ callId }) => callId));
    for (const { callId, attempt } of calls)
      if (attempt === 0 && !ids.has(callId)) this.#effects.delete(callId);
  }

  #takeOutcome({ items, from, spent }: Extract<RunEvent, { type: 'message.received' }>): void {
    const effect = from && this.#effects.get(from.callId);
    if (effect === undefined) return;
    const failed = items.some(item => item.type === 'message' && item.outcomeOf?.isError === true);
    effect.outcome = failed ? 'failed' : 'settled';
    this.#spend(spent);
  }

  #change(event: Extract<RunEvent, { callId: string }>, before: Context): void {
    const effect = this.#effects.get(event.callId);
    if (effect === undefined) return;
    switch (event.type) {
      case 'tool.settled':
      case 'result.received':
        effect.outcome = event.isError ? 'failed' : 'settled';
        return this.#spend(event.spent);
      case 'tool.suspended':
        if (event.background !== undefined) effect.outcome = 'open';
        return;
      case 'question.asked': {
        const early = findCall(before, event.callId)?.attempt === 0;
        const asked = event.questions.map(({ key, message, digest }) => ({ key, message, digest, early }));
        effect.asked = [...(effect.asked ?? []), ...asked];
        return;
      }
      case 'approval.decided':
        return this.#decide(effect, event.decision);
      case 'call.edited':
        return this.#edit(effect, event.call.input);
      case 'doubt.resolved':
        if (event.resolution.type !== 'retry')
          effect.outcome = event.resolution.type === 'happened' ? 'settled' : 'failed';
        return;
      case 'call.judged':
        if (event.verdicts.some(({ verdict, shadow }) => verdict !== 'ask' && shadow !== true))
          effect.outcome = 'refused';
        return;
      default:
    }
  }

  #decide(effect: Known, decision: Extract<RunEvent, { type: 'approval.decided' }>['decision']): void {
    effect.decision = decision.type;
    if (decision.type === 'reject') effect.outcome = 'refused';
    else if (decision.type === 'answer') effect.outcome = decision.isError === true ? 'failed' : 'settled';
    else if (decision.input !== undefined) this.#edit(effect, decision.input);
  }

  #edit(effect: Known, input: JsonValue): void {
    const key = this.#keyOf({ name: effect.name, input });
    if (key === effect.key) delete effect.editedKey;
    else effect.editedKey = key;
  }

  #spend(spent: Spent | undefined): void {
    if (spent === undefined) return;
    this.#ofChildren.turns += spent.turns;
    this.#ofChildren.tokens += tokensOf(spent.usage);
    this.#ofChildren.cost += spent.cost;
  }

  #noteGates(event: RunEvent, after: Context): void {
    const ids = 'callId' in event ? [event.callId] : callsOf(event).map(({ callId }) => callId);
    for (const callId of ids) {
      const call = findCall(after, callId);
      const effect = call?.status === 'gated' ? this.#effects.get(callId) : undefined;
      if (call !== undefined && effect !== undefined) effect.gate = dutiesOf(call);
    }
  }

  close(state: ChartState): Behaviour {
    const { context } = state;
    const refusals = new Map(
      context.transcript.flatMap(item =>
        item.type === 'tool_result' && typeof item.output === 'string' ? [[item.callId, item.output]] : [],
      ),
    );
    const effects = [...this.#effects].map(([callId, { outcome, ...effect }]): MadeCall => {
      const open = findCall(context, callId);
      const end = outcome ?? outcomeOf(open?.status);
      const said = end === 'refused' ? (open?.result?.output ?? refusals.get(callId)) : undefined;
      const refusal = typeof said === 'string' ? said.replace(/^Not run: |\.$/g, '') : undefined;
      return { ...effect, outcome: end, ...omitUndefined({ refusal }) };
    });
    const { turns, cost, usage, answer } = context;
    const ofChildren = this.#ofChildren;
    return {
      effects,
      status: statusOf(state),
      lastTurn: context.turn.number,
      end: describeEnd(state),
      ...(answer?.output !== undefined && { output: answer.output }),
      texts: [...this.#texts, answer?.text ?? ''],
      figures: {
        turns: turns - ofChildren.turns,
        tokens: tokensOf(usage) - ofChildren.tokens,
        cost: cost - ofChildren.cost,
      },
    };
  }
}

/** What became of a call that no event ends: the engine refused it, or the journal ends before. */
function outcomeOf(status: CallStatus = 'settled'): EffectOutcome {
  if (status === 'settled') return 'refused';
  return status === 'doubted' ? 'doubted' : 'open';
}

function tokensOf(usage: Usage | null): number {
  return usage === null ? 0 : usage.inputTokens + usage.outputTokens;
}

function describeEnd(state: ChartState): string {
  const { next, review, paused } = state.context;
  switch (statusOf(state)) {
    case 'finished':
      return next?.type === 'finish' && next.reason !== undefined
        ? `finished, incomplete (${next.reason})`
        : 'finished';
    case 'failed':
      return next?.type === 'fail' ? `failed (${next.code})` : 'failed';
    case 'cancelled':
      return 'was cancelled';
    case 'waiting':
      if (review !== null) return 'waits for a review';
      return paused ? 'is paused' : 'waits';
    case 'running':
      return 'has not ended';
  }
}
