/**
 * Planning: what a request for a response does to the runs of the store, decided before anything is done.
 *
 * `request-body.ts` validates the body. `References` resolves item ids within the chain of responses that the request
 * follows (`ResponseChain`), and `readInputItems` converts the input. A plan (`plan.ts`) is then one of three: start a
 * run, continue one (or a fork of it), or repeat an earlier response. `ResponsesService` carries it out.
 */

import { beginFold, foldEntry } from '../../../engine/journal/load-run.ts';
import { openCallsOf } from '../../../machines/settled.ts';
import { hasEnded, isAtRest } from '../../../machines/standing.ts';
import type { ChartState } from '../../../machines/step.ts';
import type { Item } from '../../../protocol/item.ts';
import { omitUndefined } from '../../../protocol/json.ts';
import { invalid, type ResponsesError } from '../api-error.ts';
import type { ConversationContext } from '../conversations/conversation-items.ts';
import type { FoundResponse, VisibleResponses } from '../response-library.ts';
import type { RunResponses, Span } from '../run-responses.ts';
import { OUTCOME_UNKNOWN } from '../wire/response-spec.ts';
import {
  assertPaired,
  emptyInputError,
  isClientItem,
  messagesIn,
  missingOutputError,
  outputsFor,
} from './client-items.ts';
import { idsIn, readInputItems } from './input-items.ts';
import type { CallAnswer, Plan } from './plan.ts';
import { planApprovals } from './plan-approvals.ts';
import { References } from './references.ts';
import type { CreateBody } from './request-body.ts';

/** Plans a request. Throws a `ResponsesError` for a request that cannot be carried out. */
export async function planRequest(
  body: CreateBody,
  library: VisibleResponses,
  conversation?: ConversationContext,
): Promise<Plan & { given?: number }> {
  const { previous, references, items, history } = await readRequest(body, library, conversation);
  const plan = await planItems([...history, ...items], { previous, references });
  if (conversation === undefined || plan.type === 'repeat') return plan;
  const given =
    plan.type === 'start' ? history.filter(item => plan.items.includes(item)) : messagesIn(history);
  return { ...plan, given: given.length };
}

async function planItems(
  items: Item[],
  { previous, references }: { previous: FoundResponse | undefined; references: References },
): Promise<Plan> {
  const decided = await planApprovals({ items, previous, references });
  if (decided !== undefined) return decided;
  return previous === undefined
    ? planNew(items, references, (await references.chain())?.head)
    : planAfter(previous, items, references);
}

/**
 * The input of a request, the response it follows, and the items of its conversation that this response does not have.
 * Throws a `ResponsesError` for an unknown id or invalid item.
 */
export async function readRequest(
  body: CreateBody,
  library: VisibleResponses,
  { previous: newest, history = [] }: Partial<ConversationContext> = {},
) {
  const previous = newest ?? (await findPrevious(body.previous_response_id, library));
  const references = new References(library, previous, idsIn([...history, ...body.input]));
  return {
    previous,
    references,
    items: await readInputItems(body.input, references),
    history: await readInputItems(history, references),
  };
}

async function findPrevious(
  id: string | null | undefined,
  library: VisibleResponses,
): Promise<FoundResponse | undefined> {
  if (id == null) return undefined;
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

function planNew(items: Item[], { origins }: References, head: FoundResponse | undefined): Plan {
  if (!items.some(item => item.type === 'message' || item.type === 'tool_result')) throw emptyInputError();
  assertPaired(items);
  return { type: 'start', items, origins, ...omitUndefined({ refersTo: head?.span.id }) };
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
export function stateAt({ entries, runId }: RunResponses, { to }: Pick<Span, 'to'>): ChartState {
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
