import type { ChartEvent, Question } from '../protocol/event.ts';
import { callsWith, changeCall, findCall, replaceCall } from './calls.ts';
import type { Call, Context, KeptAnswer } from './context.ts';
import { type Bar, findBar } from './duties.ts';

/*
 * What tools ask people about their calls.
 *
 * Q1 A question is answered once: by a person whom its duties allow, or by its expiry. An answer counts only for the
 *    question as it was asked.
 * Q2 A call asks before it has its result, and runs again once none of its questions is open.
 * Q3 The answers stay with the call for its later attempts. An edit of the call, or a message that supersedes it,
 *    ends its questions.
 */

type Of<Type extends ChartEvent['type']> = Extract<ChartEvent, { type: Type }>;

export function askQuestions(context: Context, { callId, digest, questions }: Of<'question.asked'>): Context {
  const asks = (findCall(context, callId)?.asks ?? 0) + 1;
  return changeCall(context, callId, { status: 'asking', asked: { digest, questions }, asks });
}

/** Whether each question is open, as it was asked, and this person's to answer in time. */
export function canAnswer(context: Context, event: Of<'question.answered'>): boolean {
  const call = findCall(context, event.callId);
  if (call?.status !== 'asking' || call.asked?.digest !== event.digest) return false;
  const keys = Object.keys(event.answers);
  return keys.length > 0 && keys.every(key => findAnswerFault(context, call, event, key) === null);
}

/** Why an answer of this person to an open question does not count; `null` if it does. */
export function findAnswerFault(
  { people }: Context,
  { asked }: Call,
  event: Of<'question.answered'>,
  key: string,
): Bar | 'not-open' | 'expired' | null {
  const question = asked?.questions.find(one => one.key === key);
  if (question === undefined) return 'not-open';
  if (question.expiresAt !== undefined && event.at >= question.expiresAt) return 'expired';
  return findBar(question, people, event);
}

export function answerQuestions(context: Context, { callId, answers }: Of<'question.answered'>): Context {
  const call = findCall(context, callId);
  if (call === undefined) return context;
  return closeQuestions(context, call, ({ key }) => (Object.hasOwn(answers, key) ? answers[key] : undefined));
}

/** At its time, a question has its fallback as the answer, or none. */
export function expireQuestions(context: Context): Context {
  const answerOf = ({ expiresAt, fallback }: Question): CloseWith => {
    if (expiresAt === undefined || expiresAt > context.now) return undefined;
    return fallback === undefined ? { type: 'expired' } : { type: 'given', value: fallback };
  };
  return callsWith(context, 'asking').reduce((state, call) => closeQuestions(state, call, answerOf), context);
}

type Distribute<Answer> = Answer extends unknown ? Omit<Answer, 'question'> : never;
type CloseWith = Distribute<KeptAnswer> | undefined;

function closeQuestions(context: Context, call: Call, answerOf: (question: Question) => CloseWith): Context {
  const { asked, ...bare } = call;
  if (asked === undefined) return context;
  const closed = asked.questions.flatMap((question): [string, KeptAnswer][] => {
    const answer = answerOf(question);
    return answer === undefined ? [] : [[question.key, { question: question.digest, ...answer }]];
  });
  if (closed.length === 0) return context;
  const answered = { ...call.answered, ...Object.fromEntries(closed) };
  const left = asked.questions.filter(({ key }) => closed.every(([other]) => other !== key));
  if (left.length > 0)
    return changeCall(context, call.callId, { asked: { ...asked, questions: left }, answered });
  return replaceCall(context, call, bare, { status: 'ready', answered });
}

/** The call without what it asked and what was answered: it is another call now. */
export function withoutQuestions<Its extends Call>(call: Its): Omit<Its, 'asked' | 'asks' | 'answered'> {
  const { asked, asks, answered, ...bare } = call;
  return bare;
}
