import { openCallsOf } from '../../../machines/settled.ts';
import type { JournalEntry } from '../../../protocol/event.ts';
import type { Item } from '../../../protocol/item.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import type { Answer } from '../../../protocol/open/answer.ts';
import type { JsonOpenCall } from '../../../protocol/run-view.ts';
import { invalid, type ResponsesError } from '../../openai-error.ts';
import type { FoundResponse } from '../runs/response-library.ts';
import { type RunResponses, requestIdOf } from '../runs/run-responses.ts';
import { type CallAnswer, isClientItem, messagesIn, outputsFor, type Plan } from './plan.ts';
import type { AskedApproval, References } from './references.ts';

type ApprovalRequest = {
  items: readonly Item[];
  previous: FoundResponse | undefined;
  references: References;
};

type Approval = Extract<Item, { type: 'approval_response' }>;
type Request = Extract<Item, { type: 'approval_request' }>;

/** An approval response and the call it refers to. */
type Located = AskedApproval & { approval: Approval };

/**
 * Plans a request with approval responses. Responses to gated calls continue the calls' run. Responses to calls that
 * were decided before are history or a repeated request; nothing runs twice. Returns `undefined` if no approval response
 * takes effect. Throws a `ResponsesError` for a response to an unknown approval request, or to one that the client
 * returns changed.
 */
export async function planApprovals(request: ApprovalRequest): Promise<Plan | undefined> {
  const passed = requestsIn(request.items);
  const isSettled = settledIn(request.items);
  const located: Located[] = [];
  for (const approval of approvalsIn(request.items)) {
    const found = await locate(approval, passed.get(approval.callId) ?? [], request.references);
    if (found !== undefined) located.push(found);
    else if (!isSettled(approval)) throw orphan(approval.callId);
  }
  const open = located.filter(({ run, callId }) => openApproval(run, callId) !== undefined);
  const [first] = open;
  if (first !== undefined) return decide(first.run, open, request);
  const [settled] = located;
  return settled !== undefined && isRepeated(settled, request) ? repeat(settled) : undefined;
}

/** The first approval response for each call counts. */
function approvalsIn(items: readonly Item[]): Approval[] {
  const approvals = new Map<string, Approval>();
  for (const item of items) {
    if (item.type === 'approval_response' && !approvals.has(item.callId)) approvals.set(item.callId, item);
  }
  return [...approvals.values()];
}

/** The approval requests among the input items, by id. */
function requestsIn(items: readonly Item[]): Map<string, Request[]> {
  const requests = new Map<string, Request[]>();
  for (const item of items) {
    if (item.type !== 'approval_request') continue;
    const known = requests.get(item.callId);
    if (known === undefined) requests.set(item.callId, [item]);
    else known.push(item);
  }
  return requests;
}

/**
 * Returns whether the history continues after an approval response: it has the approved call, or later output of the
 * model. Then nothing runs, so the run may be unknown.
 */
function settledIn(items: readonly Item[]): (approval: Approval) => boolean {
  const calls = new Set(items.flatMap(({ type, id }) => (type === 'tool_call' && id ? [id] : [])));
  const lastOfModel = items.findLastIndex(isOfModel);
  return approval =>
    calls.has(approval.callId.replace(/^mcpr_/, 'mcp_')) || items.indexOf(approval) < lastOfModel;
}

function isOfModel(item: Item): boolean {
  return !isClientItem(item) && ['message', 'reasoning', 'tool_call'].includes(item.type);
}

/**
 * Finds the call of an approval response, and checks that its server, tool and arguments are as they were shown.
 * `undefined` if no approval request with its id is known.
 */
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
  if (isChanged || !passed.every(request => isAsAsked(request, asked))) throw changed(id);
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

function decide(run: RunResponses, open: readonly Located[], request: ApprovalRequest): Plan {
  if (open.some(located => located.run.runId !== run.runId)) {
    throw invalid(
      'input',
      'approval_continuation_invalid',
      'The approval responses are for calls of different runs. Send one request per run.',
    );
  }
  const fresh = newItems(run, request);
  const approvals = open.map(({ approval: { approve, reason }, callId, digest }): CallAnswer => {
    const answer: Answer = approve ? { type: 'approve' } : { type: 'reject', ...omitUndefined({ reason }) };
    return { open: { kind: 'approval', callId, digest }, answer };
  });
  const callAnswers = [...approvals, ...outputsFor(run.state, fresh)];
  return { type: 'continue', run, callAnswers, messages: messagesIn(fresh) };
}

/**
 * The client items that the run does not have yet: all items after a previous response. In a full history, the messages
 * after the last item that is not the client's, and the outputs that the run waits for: a client may have sent them
 * before, without the decision.
 */
function newItems({ state }: RunResponses, { items, previous }: ApprovalRequest): Item[] {
  if (previous !== undefined) return items.filter(isClientItem);
  const known = items.findLastIndex(item => !isClientItem(item) && item.type !== 'approval_response');
  const waiting = new Set(openCallsOf(state.context, 'result').map(({ callId }) => callId));
  return items.filter((item, at) =>
    item.type === 'tool_result' ? waiting.has(item.callId) : at > known && isClientItem(item),
  );
}

/** Whether this is the deciding request sent again, rather than a request that has the decision in its history. */
function isRepeated({ run }: Located, { items, previous }: ApprovalRequest): boolean {
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

/** Whether the call was approved; `undefined` if it was not decided. */
function wasApproved(entries: readonly JournalEntry[], callId: string): boolean | undefined {
  for (const { event } of entries)
    if (event.type === 'approval.decided' && event.callId === callId) return event.decision.type !== 'reject';
  return undefined;
}

/** Throws a `ResponsesError` if another process has decided a call differently in the meantime. */
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

/** `id` is the id of the approval request. */
function alreadyDecided(id: string, approved: boolean): ResponsesError {
  return invalid(
    'input',
    'approval_already_decided',
    `The approval request ${id} was already ${approved ? 'approved' : 'denied'}.`,
  );
}

function orphan(id: string): ResponsesError {
  return invalid(
    'input',
    'approval_continuation_invalid',
    `The following MCP approval requests have approval responses but weren't passed as input: ${id}`,
  );
}

function changed(id: string): ResponsesError {
  return invalid(
    'input',
    'approval_request_changed',
    `The MCP approval request ${id} was changed. Return its server_label, name and arguments unchanged.`,
  );
}
