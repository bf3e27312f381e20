/** What a request does to the runs of the store, decided before anything is done: see `Plan`. */
import { isByClient } from '../../../adapters/responses/item-kinds.ts';
import { InheritedTranscripts } from '../../../engine/journal/load-history.ts';
import { closeLedger, mergeInheritance } from '../../../machines/ledger.ts';
import { openCallsOf } from '../../../machines/settled.ts';
import { hasEnded, isAtRest } from '../../../machines/status.ts';
import type { ChartState } from '../../../machines/step.ts';
import type { Inheritance, JournalEntry } from '../../../protocol/event.ts';
import type { Item } from '../../../protocol/item.ts';
import { omitUndefined, toJson } from '../../../protocol/json.ts';
import type { Answer, OpenReference } from '../../../protocol/open/answer.ts';
import type { JsonOpenCall } from '../../../protocol/run-view.ts';
import type { Store } from '../../../protocol/store.ts';
import { invalid, type ResponsesError } from '../../openai-error.ts';
import type { GatewayRequest, InputItem } from '../request/gateway-request.ts';
import { isAgentMessage } from '../request/openai-items.ts';
import {
  type FoundResponse,
  type RunResponses,
  requestIdOf,
  stateAt,
  type VisibleResponses,
} from '../runs/response-library.ts';
import { OUTCOME_UNKNOWN } from '../runs/response-spec.ts';
import { OutcomesInInput, unknownCallError } from './client-work.ts';
import { isOfModel, resolveInput } from './input-items.ts';
import { type AskedApproval, type CallOrigin, References } from './references.ts';

export type ConversationContext = {
  previous?: FoundResponse;
  history: readonly InputItem[];
};

export async function planRequest(
  request: GatewayRequest,
  library: VisibleResponses,
  conversation?: ConversationContext,
): Promise<Plan & { given?: number }> {
  const { previous, references, items, history } = await readRequest(request, library, conversation);
  const all = { items: [...history, ...items], previous, references };
  const made = (await planApprovals(all)) ?? (await planItems(all, request.names.input));
  const plan = withCompactions(made, references);
  if (conversation === undefined || plan.type === 'repeat') return plan;
  const given =
    plan.type === 'start'
      ? history.filter(item => plan.items.includes(item) && !references.restored.has(item.id ?? ''))
      : messagesIn(history);
  return { ...plan, given: given.length };
}

/** Only a run that begins takes what a compaction hands on. Throws a `ResponsesError` for another. */
function withCompactions(plan: Plan, { inherits, restored }: References): Plan {
  if (inherits === undefined || plan.type === 'repeat') return plan;
  if (plan.type === 'start') return { ...plan, inherits, restored: [...restored] };
  if (!plan.messages.some(({ id = '' }) => inherits.items.includes(id))) return plan;
  const message =
    'A compaction item cannot be sent together with results or approvals that a response waits for. Send those first.';
  throw invalid('input', 'compaction_not_readable', message);
}

async function planItems({ items, previous, references }: ReadRequest, name: string): Promise<Plan> {
  if (previous !== undefined) return planAfter(previous, items, references);
  if (!items.some(item => item.type === 'message' || item.type === 'tool_result' || isAgentMessage(item)))
    throw emptyInputError(name);
  assertPaired(items);
  const refersTo = (await references.chain())?.head.span.id;
  return { type: 'start', items, origins: references.origins, ...omitUndefined({ refersTo }) };
}

/** `history`: what the previous response does not have. Throws a `ResponsesError` for an unknown id. */
export async function readRequest(
  request: GatewayRequest,
  library: VisibleResponses,
  { previous: newest, history = [] }: Partial<ConversationContext> = {},
) {
  const previous = newest ?? (await findPrevious(request.previousResponseId, library));
  const references = new References(library, previous, [...history, ...request.input]);
  const items = await resolveInput(request.input, references);
  const before = await resolveInput(history, references);
  const outcomes = new OutcomesInInput({
    toolOf: ({ callId }) => references.origins.get(callId)?.tool,
    find: callId => references.findWork(callId),
  });
  const read = { history: await outcomes.read(before), items: await outcomes.read(items) };
  return { previous, references, ...read };
}

async function findPrevious(
  id: string | undefined,
  library: VisibleResponses,
): Promise<FoundResponse | undefined> {
  if (id === undefined) return undefined;
  const found = await library.find(id);
  if (found === undefined) {
    const message = `Previous response with id '${id}' not found.`;
    throw invalid('previous_response_id', 'previous_response_not_found', message);
  }
  if (found.span.to === null) throw inProgress(id);
  return found;
}

/** A new run if the previous response's has ended, itself if it waits, or a fork if another response continued it. */
function planAfter(found: FoundResponse, items: readonly Item[], references: References): Plan {
  const { run, span } = found;
  const isLast = run.spans.at(-1) === span;
  const state = isLast ? run.state : stateAt(run, span.to ?? 1);
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

function inProgress(id: string): ResponsesError {
  const message = `Previous response with id '${id}' is still in progress.`;
  return invalid('previous_response_id', 'previous_response_in_progress', message);
}

/** What the model would read first, without the results of tool calls. */
export async function transcriptFor(plan: Plan, store: Store): Promise<Item[]> {
  const histories = InheritedTranscripts.of(store);
  if (plan.type === 'start')
    return [...(await histories.load(plan.continues?.runId ?? null)).items, ...plan.items];
  const run = plan.type === 'repeat' ? plan.found.run : plan.run;
  const at = plan.type === 'repeat' ? undefined : plan.forkAt;
  const { context } = at === undefined ? run.state : stateAt(run, at);
  const before = context.compaction.count > 0 ? null : context.continues;
  const { items: inherited } = await histories.load(before);
  if (plan.type === 'repeat') return [...inherited, ...context.transcript];
  const { callAnswers, messages } = plan;
  const results = callAnswers.flatMap(({ open: { callId }, answer }): Item[] =>
    answer.type === 'result'
      ? [{ type: 'tool_result', callId, output: toJson(answer.output), isError: false }]
      : [],
  );
  return [...inherited, ...context.transcript, ...results, ...messages];
}

/** What a response left, after the runs that its run continues: the transcript, with a result for every call. */
export async function historyUpTo(
  { run, span }: FoundResponse,
  store: Store,
): Promise<{ items: Item[]; inherits: Inheritance }> {
  const { context } = stateAt(run, span.to ?? 1);
  const { transcript, calls, compaction } = context;
  const answered = calledIn(transcript, 'tool_result');
  const results = calls.flatMap(({ callId, result = NO_RESULT }): Item[] =>
    answered.has(callId) ? [] : [{ type: 'tool_result', callId, ...result }],
  );
  const older = await InheritedTranscripts.of(store).load(compaction.count > 0 ? null : context.continues);
  const { tokens, items } = compaction;
  const inherits = mergeInheritance({ tokens, ledger: closeLedger(context), items }, older.inherits);
  return { items: [...older.items, ...transcript, ...results], inherits };
}

const NO_RESULT = { output: 'This call has no result yet.', isError: true };

type ReadRequest = {
  items: Item[];
  previous: FoundResponse | undefined;
  references: References;
};

type Approval = Extract<Item, { type: 'approval_response' }>;
type Request = Extract<Item, { type: 'approval_request' }>;

type Located = AskedApproval & { approval: Approval };

/**
 * Responses to gated calls continue the calls' run; those to calls that were decided before are history or a repeated
 * request: nothing runs twice. `undefined` if none takes effect. Throws a `ResponsesError` for a response to an unknown
 * approval request, or to one that the client returns changed.
 */
async function planApprovals(request: ReadRequest): Promise<Plan | undefined> {
  const passed = Map.groupBy(
    request.items.filter(item => item.type === 'approval_request'),
    ({ callId }) => callId,
  );
  const isSettled = settledIn(request.items);
  const located: Located[] = [];
  for (const approval of approvalsIn(request.items)) {
    const found = await locate(approval, passed.get(approval.callId) ?? [], request.references);
    if (found !== undefined) located.push(found);
    else if (!isSettled(approval)) {
      const message = `The following MCP approval requests have approval responses but weren't passed as input: ${approval.callId}`;
      throw invalid('input', 'approval_continuation_invalid', message);
    }
  }
  const open = located.filter(({ run, callId }) => openApproval(run, callId) !== undefined);
  const [first] = open;
  if (first !== undefined) return decide(first.run, open, request);
  const [settled] = located;
  return settled !== undefined && isRepeated(settled, request) ? repeat(settled) : undefined;
}

function approvalsIn(items: readonly Item[]): Approval[] {
  const approvals = items.filter(item => item.type === 'approval_response');
  return [...Map.groupBy(approvals, ({ callId }) => callId).values()].flatMap(([first]) => first ?? []);
}

/** The history has the approved call, or later output of the model: then nothing runs, so the run may be unknown. */
function settledIn(items: readonly Item[]): (approval: Approval) => boolean {
  const calls = new Set(items.flatMap(({ type, id }) => (type === 'tool_call' && id ? [id] : [])));
  const lastOfModel = items.findLastIndex(isOfModel);
  return approval =>
    calls.has(approval.callId.replace(/^mcpr_/, 'mcp_')) || items.indexOf(approval) < lastOfModel;
}

async function locate(
  approval: Approval,
  passed: readonly Request[],
  references: References,
): Promise<Located | undefined> {
  const id = approval.callId;
  const asked = await references.findApproval(id, { passed: passed.length > 0 });
  if (asked === undefined) return undefined;
  const { run, callId, digest } = asked;
  const open = openApproval(run, callId);
  const isChanged = open !== undefined && open.digest !== digest;
  if (isChanged || !passed.every(request => isAsAsked(request, asked))) {
    const message = `The MCP approval request ${id} was changed. Return its server_label, name and arguments unchanged.`;
    throw invalid('input', 'approval_request_changed', message);
  }
  return { ...asked, approval };
}

function isAsAsked(request: Request, { shown }: AskedApproval): boolean {
  if (shown.type !== 'call.asked') return false;
  const { label = '', name, arguments: written } = request;
  const { call, tool } = shown;
  return label === tool.label && name === tool.name && written === (call.arguments || '{}');
}

function openApproval({ state }: RunResponses, callId: string): JsonOpenCall | undefined {
  return openCallsOf(state.context, 'approval').find(call => call.callId === callId);
}

function decide(run: RunResponses, open: readonly Located[], request: ReadRequest): Plan {
  if (open.some(located => located.run.runId !== run.runId)) {
    const message = 'The approval responses are for calls of different runs. Send one request per run.';
    throw invalid('input', 'approval_continuation_invalid', message);
  }
  const fresh = newItems(run, request);
  const approvals = open.map(({ approval: { approve, reason }, callId, digest }): CallAnswer => {
    const answer: Answer = approve ? { type: 'approve' } : { type: 'reject', ...omitUndefined({ reason }) };
    return { open: { kind: 'approval', callId, digest }, answer };
  });
  const callAnswers = [...approvals, ...outputsFor(run.state, fresh)];
  return { type: 'continue', run, callAnswers, messages: messagesIn(fresh) };
}

/** What the run does not have yet: new messages, and the outputs that it waits for, maybe sent before. */
function newItems({ state }: RunResponses, { items, previous }: ReadRequest): Item[] {
  if (previous !== undefined) return items.filter(isClientItem);
  const known = items.findLastIndex(item => !isClientItem(item) && item.type !== 'approval_response');
  const waiting = new Set(openCallsOf(state.context, 'result').map(({ callId }) => callId));
  return items.filter((item, at) =>
    item.type === 'tool_result' ? waiting.has(item.callId) : at > known && isClientItem(item),
  );
}

/** Whether the deciding request was sent again, rather than with the decision in its history. */
function isRepeated({ run }: Located, { items, previous }: ReadRequest): boolean {
  const decided = items.findLastIndex(({ type }) => type === 'approval_response');
  if (previous === undefined) return !items.slice(decided + 1).some(isClientItem);
  const isWhereItWasMade = previous.run.runId === run.runId && previous.span.id !== run.spans.at(-1)?.id;
  return isWhereItWasMade || !items.some(isClientItem);
}

function repeat({ approval, run, callId }: Located): Plan {
  const visible = run.spans.filter(({ deleted }) => !deleted);
  const decided = visible.flatMap(span =>
    span.spec.decisions.flatMap(made =>
      made.callId === callId && made.type === 'approval' ? [{ span, approve: made.approve }] : [],
    ),
  );
  const over = decided.find(({ span }) => span.spec.overBudget?.includes(callId));
  if (over?.approve === approval.approve) return { type: 'repeat', found: { run, span: over.span } };
  const approved = wasApproved(run.entries, callId) ?? decided[0]?.approve ?? false;
  if (approved !== approval.approve) throw alreadyDecided(approval.callId, approved);
  const found = decided.find(({ approve }) => approve === approved);
  if (found !== undefined) return { type: 'repeat', found: { run, span: found.span } };
  return { type: 'continue', run, callAnswers: [], messages: [] };
}

function wasApproved(entries: readonly JournalEntry[], callId: string): boolean | undefined {
  for (const { event } of entries)
    if (event.type === 'approval.decided' && event.callId === callId) return event.decision.type !== 'reject';
  return undefined;
}

/** Throws a `ResponsesError` if another process has decided a call differently. */
export function assertNotOtherwise(
  run: RunResponses,
  callAnswers: readonly CallAnswer[],
  entries: readonly JournalEntry[],
): void {
  for (const { open, answer } of callAnswers) {
    if (open.kind !== 'approval') continue;
    const approved = wasApproved(entries, open.callId);
    if (approved === undefined || approved === (answer.type === 'approve')) continue;
    throw alreadyDecided(requestIdOf(run, open.callId), approved);
  }
}

function alreadyDecided(id: string, approved: boolean): ResponsesError {
  const message = `The approval request ${id} was already ${approved ? 'approved' : 'denied'}.`;
  return invalid('input', 'approval_already_decided', message);
}

export type CallAnswer = { open: Extract<OpenReference, { callId: string }>; answer: Answer };

export type Plan =
  /** The run may continue an ended one, or use items of the response `refersTo` and its chain. `origins`: by call id. */
  | {
      type: 'start';
      continues?: RunResponses;
      refersTo?: string;
      items: Item[];
      origins: ReadonlyMap<string, CallOrigin>;
      /** What the compactions in the input hand on, and the ids of the items that they kept. */
      inherits?: Inheritance;
      restored?: readonly string[];
    }
  /** With `forkAt`, a fork of the run at that entry. */
  | {
      type: 'continue';
      run: RunResponses;
      forkAt?: number;
      callAnswers: CallAnswer[];
      /** Messages, and other items that the client appends. */
      messages: Item[];
    }
  | { type: 'repeat'; found: FoundResponse };

function isClientItem(item: Item): boolean {
  if (item.type === 'provider_item') return isByClient(item);
  return item.type === 'tool_result' || (item.type === 'message' && item.role !== 'assistant');
}

function messagesIn(items: readonly Item[]): Item[] {
  return items.filter(
    item => item.type === 'message' || (item.type === 'provider_item' && isClientItem(item)),
  );
}

/** The first result of a call counts. Throws a `ResponsesError` for a result that no call waits for. */
function outputsFor({ context }: ChartState, items: readonly Item[]): CallAnswer[] {
  const called = calledIn(items);
  const open = openCallsOf(context, 'result');
  const outputs = new Map<string, CallAnswer>();
  for (const item of items) {
    if (item.type !== 'tool_result' || outputs.has(item.callId)) continue;
    const { callId, output, isError } = item;
    if (open.some(call => call.callId === callId))
      outputs.set(callId, { open: { kind: 'result', callId }, answer: { type: 'result', output, isError } });
    else if (!called.has(callId)) throw unknownCallError(callId);
  }
  return [...outputs.values()];
}

function assertPaired(items: readonly Item[]): void {
  const called = calledIn(items);
  const answered = calledIn(items, 'tool_result');
  for (const callId of called) if (!answered.has(callId)) throw missingOutputError(callId);
  for (const callId of answered) if (!called.has(callId)) throw unknownCallError(callId);
}

function calledIn(items: readonly Item[], type: 'tool_call' | 'tool_result' = 'tool_call'): Set<string> {
  return new Set(items.flatMap(item => (item.type === type ? [item.callId] : [])));
}

function missingOutputError(callId: string): ResponsesError {
  return invalid('input', 'tool_output_missing', `No tool output found for function call ${callId}.`);
}

function emptyInputError(name = 'input'): ResponsesError {
  const message = `'${name}' is empty. Send a message or a function call output.`;
  return invalid(name, 'input_items_empty', message);
}
