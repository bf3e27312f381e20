/**
 * Planning: what a request for a response does to the runs of the store, decided before anything is done.
 *
 * `resolveInput` makes the transcript items of the input; `References` finds stored ones within the chain of responses
 * that the request follows (`ResponseChain`). A plan (`plan.ts`) is then one of three: start a run, continue one (or a
 * fork of it), or repeat an earlier response. `RequestRuns` carries it out.
 */
import { InheritedTranscripts } from '../../../engine/journal/load-history.ts';
import { beginFold, foldEntry } from '../../../engine/journal/load-run.ts';
import { openCallsOf } from '../../../machines/settled.ts';
import { hasEnded, isAtRest } from '../../../machines/status.ts';
import type { ChartState } from '../../../machines/step.ts';
import type { Item } from '../../../protocol/item.ts';
import { omitUndefined, toJson } from '../../../protocol/json.ts';
import type { Store } from '../../../protocol/store.ts';
import { invalid, type ResponsesError } from '../../openai-error.ts';
import type { GatewayRequest, InputItem } from '../request/gateway-request.ts';
import type { FoundResponse, VisibleResponses } from '../runs/response-library.ts';
import { OUTCOME_UNKNOWN } from '../runs/response-spec.ts';
import type { RunResponses, Span } from '../runs/run-responses.ts';
import { resolveInput } from './input-items.ts';
import {
  assertPaired,
  type CallAnswer,
  emptyInputError,
  isClientItem,
  messagesIn,
  missingOutputError,
  outputsFor,
  type Plan,
} from './plan.ts';
import { planApprovals } from './plan-approvals.ts';
import { References } from './references.ts';

/** What a request in a conversation follows. */
export type ConversationContext = {
  /** The response that the request continues. */
  previous?: FoundResponse;
  /** The items before the request's input that `previous` does not have. */
  history: readonly InputItem[];
};

/** Plans a request. Throws a `ResponsesError` for a request that cannot be carried out. */
export async function planRequest(
  request: GatewayRequest,
  library: VisibleResponses,
  conversation?: ConversationContext,
): Promise<Plan & { given?: number }> {
  const { previous, references, items, history } = await readRequest(request, library, conversation);
  const { names } = request;
  const plan = await planItems([...history, ...items], { previous, references, names });
  if (conversation === undefined || plan.type === 'repeat') return plan;
  const given =
    plan.type === 'start' ? history.filter(item => plan.items.includes(item)) : messagesIn(history);
  return { ...plan, given: given.length };
}

async function planItems(
  items: Item[],
  {
    previous,
    references,
    names,
  }: { previous: FoundResponse | undefined; references: References } & Pick<GatewayRequest, 'names'>,
): Promise<Plan> {
  const decided = await planApprovals({ items, previous, references });
  if (decided !== undefined) return decided;
  if (previous !== undefined) return planAfter(previous, items, references);
  if (!items.some(item => item.type === 'message' || item.type === 'tool_result'))
    throw emptyInputError(names.input);
  assertPaired(items);
  const refersTo = (await references.chain())?.head.span.id;
  return { type: 'start', items, origins: references.origins, ...omitUndefined({ refersTo }) };
}

/**
 * The input of a request, the response it follows, and the items of its conversation that this response does not have.
 * Throws a `ResponsesError` for an unknown id or invalid item.
 */
export async function readRequest(
  request: GatewayRequest,
  library: VisibleResponses,
  { previous: newest, history = [] }: Partial<ConversationContext> = {},
) {
  const previous = newest ?? (await findPrevious(request.previousResponseId, library));
  const references = new References(library, previous, [...history, ...request.input]);
  return {
    previous,
    references,
    items: await resolveInput(request.input, references),
    history: await resolveInput(history, references),
  };
}

async function findPrevious(
  id: string | undefined,
  library: VisibleResponses,
): Promise<FoundResponse | undefined> {
  if (id === undefined) return undefined;
  const found = await library.find(id);
  if (found === undefined) {
    throw invalid(
      'previous_response_id',
      'previous_response_not_found',
      `Previous response with id '${id}' not found.`,
    );
  }
  if (found.span.to === null) throw inProgress(id);
  return found;
}

/**
 * Continues the run of the previous response: a new run if it has ended, the run itself if it waits, or a fork if
 * another response has already continued it.
 */
function planAfter(found: FoundResponse, items: readonly Item[], references: References): Plan {
  const { run, span } = found;
  const isLast = run.spans.at(-1) === span;
  const state = isLast ? run.state : stateAt(run, span);
  if (hasEnded(state)) return continueEnded(run, items, { state, references });
  if (!isAtRest(state) || state.context.paused) throw inProgress(span.id);
  // The client continues although a call is in doubt: the model reads that the outcome is unknown.
  const unknown = { type: 'failed', reason: OUTCOME_UNKNOWN } as const;
  const doubts = openCallsOf(state.context, 'doubt').map(
    ({ callId }): CallAnswer => ({ open: { kind: 'doubt', callId }, answer: unknown }),
  );
  const outputs = outputsFor(state, items);
  const missing = openCallsOf(state.context, 'result').find(
    ({ callId }) => !outputs.some(({ open }) => open.callId === callId),
  );
  if (missing !== undefined) throw missingOutputError(missing.callId);
  const messages = messagesIn(items);
  if (outputs.length === 0 && messages.length === 0) throw emptyInputError();
  return {
    type: 'continue',
    run,
    callAnswers: [...doubts, ...outputs],
    messages,
    ...omitUndefined({ forkAt: isLast ? undefined : (span.to ?? 1) }),
  };
}

function continueEnded(
  continues: RunResponses,
  items: readonly Item[],
  { state, references }: { state: ChartState; references: References },
): Plan {
  outputsFor(state, items);
  if (!items.some(isClientItem)) throw emptyInputError();
  const transcript = items.filter(({ type }) => type !== 'approval_response');
  assertPaired(transcript);
  return { type: 'start', continues, items: transcript, origins: references.origins };
}

/** The state of a run at the end of a response. */
function stateAt({ entries, runId }: RunResponses, { to }: Pick<Span, 'to'>): ChartState {
  const [first, ...rest] = entries;
  if (first?.event.type !== 'run.started') throw new Error('a journal begins with run.started');
  return rest
    .filter(({ seq }) => seq <= (to ?? 1))
    .reduce((state, entry) => foldEntry(state, entry, runId), beginFold(first.event));
}

function inProgress(id: string): ResponsesError {
  return invalid(
    'previous_response_id',
    'previous_response_in_progress',
    `Previous response with id '${id}' is still in progress.`,
  );
}

/** The transcript that the model would read first if the plan were carried out, without the results of tool calls. */
export async function transcriptFor(plan: Plan, store: Store): Promise<Item[]> {
  const histories = new InheritedTranscripts(store);
  if (plan.type === 'start') return [...(await histories.load(plan.continues?.runId ?? null)), ...plan.items];
  const run = plan.type === 'repeat' ? plan.found.run : plan.run;
  const inherited = await histories.load(run.state.context.continues);
  if (plan.type === 'repeat') return [...inherited, ...run.state.context.transcript];
  const { forkAt, callAnswers, messages } = plan;
  const { context } = forkAt === undefined ? run.state : stateAt(run, { to: forkAt });
  const results = callAnswers.flatMap(({ open: { callId }, answer }): Item[] =>
    answer.type === 'result'
      ? [{ type: 'tool_result', callId, output: toJson(answer.output), isError: false }]
      : [],
  );
  return [...inherited, ...context.transcript, ...results, ...messages];
}

/** The transcript at the end of a response: that of its run, after the runs it continues. */
export async function transcriptUpTo({ run, span }: FoundResponse, store: Store): Promise<Item[]> {
  const { transcript, calls, continues } = stateAt(run, span).context;
  const answered = new Set(transcript.flatMap(item => (item.type === 'tool_result' ? [item.callId] : [])));
  const results = calls.flatMap(({ callId, result }): Item[] =>
    result === undefined || answered.has(callId) ? [] : [{ type: 'tool_result', callId, ...result }],
  );
  return [...(await new InheritedTranscripts(store).load(continues)), ...transcript, ...results];
}
