import type { StandardSchemaV1 } from '@standard-schema/spec';
import { type JsonObject, omitUndefined, toJson } from '../protocol/json.ts';
import { optionNames, refuseUnknownOptions } from '../protocol/options/refuse-unknown.ts';
import type { AskedQuestion, ToolCallContext } from '../protocol/tool.ts';
import { buildSchema } from './build-object-schema.ts';
import { validateWith } from './validate-with.ts';

/** A question to people, as `prepare` and `run` of a tool ask it. */
export type AskOptions<Schema extends StandardSchemaV1> = {
  /** Names the question among those of the call: 1 to 64 letters, digits, `_`, `.` or `-`. */
  key: string;
  /** What people read. An answer counts only for the same message and schema. */
  message: string;
  /** Any Standard Schema. Its output is the answer. */
  schema: Schema;
  /** The JSON Schema for forms, instead of the one that `schema` generates. */
  jsonSchema?: JsonObject;
  /** The groups that may answer. Default: everyone who may answer what runs ask. */
  by?: string | readonly string[];
  /** Who may not answer: who started the run, or anyone who wrote in it. */
  not?: 'starter' | 'sender';
  /** When the question expires, in ms from now. Default: never. */
  expiresInMs?: number;
  /** The answer once the question has expired. Without it, `ask` throws `Unanswered` then. */
  fallback?: StandardSchemaV1.InferInput<Schema>;
};

/**
 * Asks people and returns their answer. Until there is one, the function ends here, and the process may too: later the
 * function runs again from its start, and questions that were answered return at once. Throws `Unanswered` if the question
 * was declined or has expired.
 */
export type Ask = <Schema extends StandardSchemaV1>(
  question: AskOptions<Schema>,
) => Promise<StandardSchemaV1.InferOutput<Schema>>;

/** A question was declined, or has expired without a fallback. Unless a tool catches it, the model reads the message. */
export class Unanswered extends Error {
  override readonly name = 'Unanswered';
  readonly key: string;
  readonly expired: boolean;
  /** Why a person declined. */
  readonly reason?: string;

  constructor(key: string, expired: boolean, reason?: string) {
    const why = expired ? 'was not answered in time' : 'was declined';
    super(`The question "${key}" ${why}${reason === undefined ? '.' : `: ${reason}`}`);
    this.key = key;
    this.expired = expired;
    if (reason !== undefined) this.reason = reason;
  }
}

const NAMES = optionNames<AskOptions<StandardSchemaV1>>()(
  'key message schema jsonSchema by not expiresInMs fallback',
);

/**
 * The `ask` of a tool's functions. An answer that the schema refuses is asked for again.
 * @internal
 */
export function makeAsk(name: string, { askPeople }: Pick<ToolCallContext, 'askPeople'>): Ask {
  const ask: Ask = async question => {
    refuseUnknownOptions(`ask of tool "${name}"`, question, NAMES, 'input-invalid');
    if (askPeople === undefined) throw new Error(`"${name}" cannot ask here: only calls of a run can.`);
    const { key, schema, jsonSchema, by, not, expiresInMs, fallback } = question;
    const of = `the question "${key}" of tool "${name}"`;
    const asked: AskedQuestion = {
      key,
      message: question.message,
      schema: buildSchema({ of, option: 'jsonSchema', schema, given: jsonSchema }),
      ...omitUndefined({ by, not, expiresInMs }),
      ...(fallback !== undefined && { fallback: toJson(fallback) }),
    };
    const answer = await askPeople(asked);
    if (answer.type !== 'given')
      throw new Unanswered(
        key,
        answer.type === 'expired',
        answer.type === 'declined' ? answer.reason : undefined,
      );
    const validation = await validateWith(schema, answer.value);
    if (validation.valid) return validation.value as never;
    await askPeople({
      ...asked,
      fault: `The answer ${show(answer.value)} does not fit: ${validation.message}`,
    });
    throw new Error(validation.message);
  };
  return question => {
    const asking = ask(question);
    // One that is not awaited yet when the function ends must not end the process.
    asking.catch(() => {});
    return asking;
  };
}

function show(value: unknown): string {
  const text = JSON.stringify(value);
  return text.length > 200 ? `${text.slice(0, 200)}…` : text;
}
