import type { ChartEvent } from '../protocol/event.ts';
import type { Item } from '../protocol/item.ts';
import { omitUndefined } from '../protocol/json.ts';
import type { Context } from './context.ts';
import { type Bar, countApproval, findBar, fitsGate, isApprovedBy } from './duties.ts';
import { forwardMessages } from './hand-off.ts';
import { addSpent } from './limits.ts';

/*
 * What becomes of an answer that is checked: it passes, is sent back to the model, or waits for people first.
 *
 * V1 An answer under review is not the run's: the run rests, and only a decision, its expiry, or what replaces the answer
 *    (an edit, or a message that supersedes it) ends the review.
 * V2 Who decides is up to the duties of the review, as for a gated call (`duties.ts`).
 * V3 An answer that a person changed passes as it is. The model reads it after its own.
 * V4 An expired review counts as a block. A person may send the answer back as often as the limits of the run allow.
 */

type Of<Type extends ChartEvent['type']> = Extract<ChartEvent, { type: Type }>;

export function passAnswer(context: Context, event: Of<'answer.checked'>): Context {
  return { ...withAnswer(addSpent(context, event.spent), event), answerChecked: true };
}

/** `decideNextAction` limits how often. */
export function blockAnswer(context: Context, { reason, code, spent }: Of<'answer.blocked'>): Context {
  return sendBack(addSpent({ ...context, blocks: context.blocks + 1 }, spent), reason, { code });
}

export function requestReview(context: Context, event: Of<'review.requested'>): Context {
  const { reviewId: id, digest, reason, duties, expiresAt } = event;
  const replaced = event.text === undefined ? undefined : (true as const);
  const review = { id, digest, reason, ...duties, ...omitUndefined({ expiresAt, replaced }) };
  return { ...withAnswer(addSpent(context, event.spent), event), review };
}

/** Whether the review is open, the decision is about the answer as it is and in time, and it is this person's. */
export function canReview(context: Context, event: Of<'review.decided'>): boolean {
  const { review } = context;
  if (review?.id !== event.reviewId) return false;
  if (event.decision.type === 'withdraw') return true;
  return fitsGate(review, event) && findReviewFault(context, event) === null;
}

/** Why a decision of this person does not count; `null` if it does. */
export function findReviewFault(
  { review, people }: Context,
  event: Of<'review.decided'>,
): Bar | 'repeated' | null {
  if (review === null) return null;
  const bar = findBar(review, people, event);
  if (bar !== null) return bar;
  const approvesAsIs = event.decision.type === 'approve' && event.decision.text === undefined;
  return approvesAsIs && isApprovedBy(review, event) ? 'repeated' : null;
}

/** Why this person may not replace the answer under review; `null` if they may, or there is none. */
export function findReviewBar(
  { review, people }: Context,
  editor: { by?: string; groups?: readonly string[] },
): Bar | null {
  return review === null ? null : findBar(review, people, editor);
}

export function decideReview(context: Context, event: Of<'review.decided'>): Context {
  const { review, people } = context;
  const { decision } = event;
  if (review === null) return context;
  if (decision.type === 'reject') {
    const { reason } = decision;
    return sendBack(context, reason === undefined ? SENT_BACK : `${SENT_BACK} ${reason}`, { reviewed: true });
  }
  const { approvedBy: _, ...bare } = review;
  if (decision.type === 'withdraw') return { ...context, review: bare };
  const { text, editDigest } = decision;
  const isEdited = text !== undefined;
  const changed = isEdited ? { ...bare, digest: editDigest ?? review.digest, edited: true as const } : review;
  const { isEnough, ...counted } = countApproval(changed, people, event);
  const after = isEdited ? withAnswer(context, decision) : context;
  if (!isEnough) return { ...after, review: { ...changed, ...counted } };
  const passed: Context = { ...after, review: null, answerChecked: true };
  const shown = changed.edited === true ? note(passed, CHANGED + (passed.answer?.text ?? '')) : passed;
  return shown.inbox.length === 0 ? shown : forwardMessages(shown);
}

/** At its time, the answer goes back to the model. */
export function expireReview(context: Context): Context {
  if (!hasExpired(context)) return context;
  return sendBack({ ...context, blocks: context.blocks + 1 }, EXPIRED, {});
}

/** A new message takes the place of the answer under review, which is not given. */
export function withdrawReview(context: Context): Context {
  if (context.review === null) return context;
  return note({ ...context, review: null, answer: null }, SUPERSEDED);
}

/** Whether readers lose the answer under review with this event. */
export function endsReview(context: Context, event: ChartEvent): boolean {
  if (context.review === null) return false;
  switch (event.type) {
    case 'review.decided':
      return event.decision.type === 'reject';
    case 'message.received':
      return context.config.onMessage === 'supersede';
    case 'timer.fired':
      return hasExpired({ ...context, now: Math.max(context.now, event.at) });
    default:
      return false;
  }
}

const SENT_BACK = 'This answer was sent back by a person who reviews answers.';
const EXPIRED = 'This answer was not given: it was not reviewed in time.';
const SUPERSEDED = 'This answer was not given: a new message came before it was reviewed.';
const CHANGED = 'A person changed this answer before it was given. It now reads:\n';

function hasExpired({ review, now }: Context): boolean {
  return review?.expiresAt !== undefined && review.expiresAt <= now;
}

/** The model reads the reason as a message. */
function sendBack(
  context: Context,
  reason: string,
  { code, reviewed }: { code?: string | undefined; reviewed?: true },
): Context {
  const sentBack = { code: code ?? 'answer-blocked', reason, ...omitUndefined({ reviewed }) };
  return note({ ...context, review: null, sentBack }, reason);
}

function note(context: Context, text: string): Context {
  const message: Item = { type: 'message', role: 'developer', content: [{ type: 'text', text }] };
  return { ...context, transcript: [...context.transcript, message] };
}

function withAnswer(
  context: Context,
  { text, output }: Pick<Of<'answer.checked'>, 'text' | 'output'>,
): Context {
  return {
    ...context,
    answer: { text: text ?? context.answer?.text ?? '', ...omitUndefined({ output }) },
  };
}
