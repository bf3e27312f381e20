import { callsWith } from '../../machines/calls.ts';
import type { Item } from '../../protocol/item.ts';
import { invalid, type ResponsesError } from './api-error.ts';
import type { Plan } from './plan.ts';
import { entryOfTurn, type FoundResponse, type ResponseLibrary, spanAt } from './response-library.ts';
import type { RunResponses } from './run-responses.ts';
import { isTheirs, messagesIn, outputsFor } from './said-items.ts';
import { readItemId } from './wire-ids.ts';

export type ApprovalRequest = {
  items: readonly Item[];
  previous: FoundResponse | undefined;
  library: ResponseLibrary;
};

type Approval = Extract<Item, { type: 'approval_response' }>;

/** A decision, and the call it is about. */
type Located = { approval: Approval; run: RunResponses; callId: string };

/**
 * Decisions on calls that wait are put to the run they wait in. Those on calls that were decided before are
 * history, or the same request once more; nothing runs a second time. `undefined` when there is no decision
 * that counts. Throws a `ResponsesError` for a decision on something that was never asked.
 */
export async function planApprovals(request: ApprovalRequest): Promise<Plan | undefined> {
  const located = await Promise.all(approvalsIn(request.items).map(approval => locate(approval, request)));
  const open = located.filter(({ run, callId }) => isGated(run, callId));
  const [first] = open;
  if (first !== undefined) return decide(first.run, open, request);
  const [settled] = located;
  return settled !== undefined && isSaidAgain(settled, request) ? repeat(settled) : undefined;
}

/** The first word on a call counts. */
function approvalsIn(items: readonly Item[]): Approval[] {
  const approvals = new Map<string, Approval>();
  for (const item of items) {
    if (item.type === 'approval_response' && !approvals.has(item.callId)) approvals.set(item.callId, item);
  }
  return [...approvals.values()];
}

async function locate(approval: Approval, request: ApprovalRequest): Promise<Located> {
  const { items, previous, library } = request;
  const id = approval.callId;
  const place = readItemId(id);
  if (place?.kind !== 'mcpr') throw orphan(id);
  const isPassed = items.some(item => item.type === 'approval_request' && item.callId === id);
  const isKnown =
    isPassed ||
    (previous !== undefined &&
      (await library.store.chain(previous.run.runId)).some(({ runId }) => runId === place.runId));
  const run = isKnown ? await library.load(place.runId) : undefined;
  const entry = run && entryOfTurn(run, place.turn);
  if (run === undefined || entry === undefined) throw orphan(id);
  const call = entry.event.calls[place.place];
  if (call === undefined || spanAt(run, entry.seq)?.deleted === true) throw orphan(id);
  return { approval, run, callId: call.callId };
}

function isGated({ state }: RunResponses, callId: string): boolean {
  return callsWith(state.context, 'gated').some(call => call.callId === callId);
}

function decide(run: RunResponses, open: readonly Located[], request: ApprovalRequest): Plan {
  if (open.some(located => located.run.runId !== run.runId)) {
    throw invalid(
      'input',
      'approval_continuation_invalid',
      'The approval responses are for calls of different runs. Answer each in a request of its own.',
    );
  }
  const fresh = newItems(request);
  const approvals = open.map(({ approval: { approve, reason }, callId }) => {
    const verdict = { type: 'approval' as const, callId, approve };
    return reason === undefined ? verdict : { ...verdict, reason };
  });
  const verdicts = [...approvals, ...outputsFor(run.state, fresh)];
  return { type: 'goOn', run, verdicts, messages: messagesIn(fresh) };
}

/** Behind a response all is new; a history that came whole is known up to the last thing that was not the client's. */
function newItems({ items, previous }: ApprovalRequest): Item[] {
  if (previous !== undefined) return items.filter(isTheirs);
  const known = items.findLastIndex(item => !isTheirs(item) && item.type !== 'approval_response');
  return items.slice(known + 1).filter(isTheirs);
}

/** A decision that more is said behind is history, unless it stands where it was made: then the request came again. */
function isSaidAgain({ run }: Located, { items, previous }: ApprovalRequest): boolean {
  const decided = items.findLastIndex(({ type }) => type === 'approval_response');
  if (previous === undefined) return !items.slice(decided + 1).some(isTheirs);
  const isWhereItWasMade = previous.run.runId === run.runId && previous.span.id !== run.spans.at(-1)?.id;
  return isWhereItWasMade || !items.some(isTheirs);
}

function repeat({ approval, run, callId }: Located): Plan {
  const span = run.spans.find(({ spec }) => spec.decisions.some(decision => decision.callId === callId));
  const decision = span?.spec.decisions.find(made => made.callId === callId);
  const approved = decision?.type === 'approval' ? decision.approve : wasApproved(run, callId);
  if (approved !== approval.approve) {
    throw invalid(
      'input',
      'approval_already_decided',
      `The approval request ${approval.callId} was ${approved ? 'approved' : 'denied'} before.`,
    );
  }
  if (span !== undefined) return { type: 'repeat', found: { run, span } };
  return { type: 'goOn', run, verdicts: [], messages: [] };
}

/** By somebody who did not ask for a response. */
function wasApproved({ entries }: RunResponses, callId: string): boolean {
  return entries.some(
    ({ event }) =>
      event.type === 'approval.decided' && event.callId === callId && event.decision.type !== 'reject',
  );
}

function orphan(id: string): ResponsesError {
  return invalid(
    'input',
    'approval_continuation_invalid',
    `The following MCP approval requests have approval responses but weren't passed as input: ${id}`,
  );
}
