import type { RunEvent } from '../../../protocol/event.ts';
import type { Evidence } from './check-calls.ts';

type Of<Type extends RunEvent['type']> = Extract<RunEvent, { type: Type }>;

/** The faults of a run's reviews: each is asked for once, and ends once; the answer of the run was approved as it is. */
export function checkReviews({ runId, events, state }: Evidence): string[] {
  const requested = events.filter(
    (event): event is Of<'review.requested'> => event.type === 'review.requested',
  );
  const last = requested.at(-1);
  if (last === undefined) return [];
  const ids = new Set(requested.map(({ reviewId }) => reviewId));
  const answer = state.context.answer?.text;
  return [
    ...(ids.size === requested.length ? [] : [`${runId} asks for a review twice`]),
    ...requested.flatMap(one => checkReview(one, one === last ? answer : undefined, runId, events)),
  ];
}

/** `given`: the answer of the run, if the review let it pass. */
function checkReview(
  { reviewId, text, duties }: Of<'review.requested'>,
  given: string | undefined,
  runId: string,
  events: readonly RunEvent[],
): string[] {
  const decided = events.filter(
    (event): event is Of<'review.decided'> => event.type === 'review.decided' && event.reviewId === reviewId,
  );
  const sentBack = decided.filter(({ decision }) => decision.type === 'reject').length;
  const changedAt = decided.findLastIndex(
    ({ decision }) => decision.type === 'approve' && decision.text !== undefined,
  );
  const changed = decided[changedAt]?.decision;
  const approvals = new Set(decided.slice(Math.max(0, changedAt)).map(({ by }) => by)).size;
  const name = `${reviewId} of ${runId}`;
  if (given === undefined) return sentBack === 1 ? [] : [`${name} was sent back ${sentBack} times`];
  const approved = changed?.type === 'approve' ? changed.text : text;
  return [
    ...(sentBack === 0 ? [] : [`${name} was sent back, and its answer given`]),
    ...(approvals === (duties?.quorum ?? 1) ? [] : [`${name} passed with ${approvals} approvals`]),
    ...(approved === undefined || approved === given
      ? []
      : [`${name} approved "${approved}", and "${given}" was given`]),
  ];
}
