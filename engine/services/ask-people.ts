import type { Call } from '../../machines/context.ts';
import { digestOf } from '../../protocol/content/digest.ts';
import type { Question } from '../../protocol/event.ts';
import { canonicalJson, type JsonObject, omitUndefined, toBoundedJson } from '../../protocol/json.ts';
import { type AskedQuestion, type QuestionAnswer, readGroups } from '../../protocol/tool.ts';
import { fitsBytes } from '../../text/cut-text.ts';

/** How often one call may ask, and how much at once. */
export const MOST_ASKS = 100;
const MOST_QUESTIONS = 20;
const LONGEST_MESSAGE_BYTES = 10_000;
const LARGEST_SCHEMA_BYTES = 100_000;
const KEY = /^[A-Za-z0-9_.-]{1,64}$/;

const NO_QUESTIONS: readonly Question[] = [];

/** Ends a function that asks. The engine does not report it. */
class Asking extends Error {
  override readonly name = 'Asking';
  constructor() {
    super('The call waits for answers: its tool runs again once people have given them.');
  }
}

/**
 * What a function of a call asks while it runs. An answer that is known is returned at once; each other question is noted,
 * and its promise rejects, so that the function ends.
 */
export class Questions {
  readonly #known: Call['answered'];
  readonly #now: () => number;
  readonly #seen = new Map<string, { what: string; answer: Promise<QuestionAnswer> }>();
  readonly #open = new Map<string, Question>();
  #isFaulty = false;

  constructor({ answered }: Pick<Call, 'answered'>, now: () => number) {
    this.#known = answered;
    this.#now = now;
  }

  /** None if one of them cannot be asked: the function fails then. */
  get open(): readonly Question[] {
    return this.#isFaulty || this.#open.size === 0 ? NO_QUESTIONS : [...this.#open.values()];
  }

  ask(asked: AskedQuestion): Promise<QuestionAnswer> {
    try {
      return this.#ask(readQuestion(asked, this.#now()));
    } catch (error) {
      this.#isFaulty = true;
      throw error;
    }
  }

  #ask(question: Question): Promise<QuestionAnswer> {
    const { key, digest, fault } = question;
    const seen = this.#seen.get(key);
    const what = `${digest} ${fault ?? ''}`;
    if (seen?.what === what) return seen.answer;
    if (seen !== undefined && fault === undefined)
      throw new Error(`Two different questions have the key "${key}". Give each its own.`);
    if (this.#open.size === MOST_QUESTIONS && !this.#open.has(key))
      throw new Error(`A tool may ask ${MOST_QUESTIONS} questions at once. Ask some of them later.`);
    const answer = this.#answerTo(question);
    answer.catch(() => {});
    this.#seen.set(key, { what, answer });
    return answer;
  }

  async #answerTo(question: Question): Promise<QuestionAnswer> {
    const { key, digest, fault } = question;
    const known = this.#known !== undefined && Object.hasOwn(this.#known, key) ? this.#known[key] : undefined;
    if (known?.question === digest && fault === undefined) {
      const { question: _, ...answer } = known;
      return answer;
    }
    this.#open.set(key, question);
    throw new Asking();
  }
}

export function digestQuestions(questions: readonly Question[]): string {
  return digestOf(questions.map(({ key, digest }) => ({ key, digest })));
}

/** The digest is of the message, the schema and the URL: while they stay the same, so does the answer. */
function readQuestion(asked: AskedQuestion, now: number): Question {
  const { key, message, schema, url, not, expiresInMs, fallback, fault } = asked;
  const by = asked.by === undefined ? undefined : readGroups(asked.by);
  if (typeof key !== 'string' || !KEY.test(key) || key === '__proto__')
    throw invalid('key', '1 to 64 letters, digits, "_", "." or "-"', key);
  if (typeof message !== 'string' || message === '' || !fitsBytes(message, LONGEST_MESSAGE_BYTES))
    throw invalid('message', `a text of at most ${LONGEST_MESSAGE_BYTES} bytes`, message);
  if (by === undefined && asked.by !== undefined) throw invalid('by', 'the names of groups', asked.by);
  if (not !== undefined && not !== 'starter' && not !== 'sender')
    throw invalid('not', '"starter" or "sender"', not);
  if (expiresInMs !== undefined && !(Number.isFinite(expiresInMs) && expiresInMs > 0))
    throw invalid('expiresInMs', 'a time above 0 in ms', expiresInMs);
  if (fallback !== undefined && expiresInMs === undefined)
    throw new Error('A question with a fallback has an expiresInMs, after which it is the answer.');
  const copy = toBoundedJson(schema) as JsonObject;
  if (!fitsBytes(canonicalJson(copy), LARGEST_SCHEMA_BYTES))
    throw new Error(`The schema of the question "${key}" is larger than ${LARGEST_SCHEMA_BYTES} bytes.`);
  return {
    key,
    message,
    schema: copy,
    digest: digestOf(omitUndefined({ message, schema: copy, url })),
    ...omitUndefined({
      url,
      by,
      not,
      expiresAt: expiresInMs === undefined ? undefined : now + expiresInMs,
      fallback: fallback === undefined ? undefined : toBoundedJson(fallback),
      fault,
    }),
  };
}

function invalid(member: string, expected: string, got: unknown): Error {
  return new Error(`ask: expected \`${member}\` to be ${expected}, got ${JSON.stringify(got)}.`);
}
