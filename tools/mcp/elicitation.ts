import { digestOf } from '../../protocol/content/digest.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../../protocol/json.ts';
import type { AskedQuestion, ToolCallContext } from '../../protocol/tool.ts';
import { quoteServerText } from './redact-secrets.ts';

/** What a server asks people. `name` is the server's own key for it. */
export type ServerQuestion = { name: string; question: AskedQuestion };

/** How people answered, by the server's keys. */
export type InputResponses = { [name: string]: { action: 'accept' | 'decline'; content?: JsonObject } };

/** Of one result of a server. Characters. */
const MOST_REQUESTS = 20;
const LARGEST_REQUESTS = 200_000;
const LONGEST_MESSAGE = 2_000;
const LONGEST_URL = 4_096;
const LONGEST_KEY = 40;

const NOTHING: JsonObject = { type: 'object', properties: {}, additionalProperties: false };

type Asking = {
  server: string;
  /** What the keys of the questions begin with, so that those of several rounds differ. */
  round: string;
  redact(text: string): string;
};

/**
 * Reads what a server asks (https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation). Throws an `Error`
 * that continues "the server …" for what people cannot be asked: another method, too much of it, no schema of an object,
 * or a URL that is not http or https.
 */
export function readQuestions(requests: JsonValue, asking: Asking): ServerQuestion[] {
  if (!isJsonObject(requests)) throw new Error('asks for input in a form that is unknown here');
  const entries = Object.entries(requests);
  if (entries.length > MOST_REQUESTS)
    throw new Error(`asks for ${entries.length} inputs at once; the limit is ${MOST_REQUESTS}`);
  if (JSON.stringify(requests).length > LARGEST_REQUESTS)
    throw new Error(`asks for input with more than ${LARGEST_REQUESTS} characters, which is the limit`);
  return entries.map(([name, request]) => ({ name, question: readQuestion(name, request, asking) }));
}

function readQuestion(name: string, request: JsonValue, asking: Asking): AskedQuestion {
  const { method, params } = isJsonObject(request) ? request : {};
  if (method !== 'elicitation/create' || !isJsonObject(params)) {
    const asked = typeof method === 'string' ? quoteServerText(method, LONGEST_KEY, asking.redact) : 'input';
    throw new Error(`asks for ${asked}, which this client does not have: it only has answers of people`);
  }
  const { message, mode = 'form', requestedSchema, url } = params;
  const text = quoteServerText(typeof message === 'string' ? message : '', LONGEST_MESSAGE, asking.redact);
  const asked = {
    key: `${asking.round}.${keyOf(name)}`,
    message: `The MCP server "${asking.server}" asks: ${text}`,
  };
  if (mode === 'url') return { ...asked, schema: NOTHING, url: readUrl(url) };
  if (mode !== 'form' || !isJsonObject(requestedSchema) || requestedSchema.type !== 'object')
    throw new Error('asks for input without a schema of an object');
  const { $schema: _, ...schema } = requestedSchema;
  return { ...asked, schema };
}

function readUrl(given: JsonValue | undefined): string {
  const url = typeof given === 'string' && given.length <= LONGEST_URL && URL.canParse(given) ? given : '';
  const { protocol, username, password } = new URL(url === '' ? 'none:' : url);
  if (!/^https?:$/.test(protocol) || username !== '' || password !== '')
    throw new Error('asks people to open a URL that is not http or https, too long, or has credentials');
  return new URL(url).href;
}

/** A key of the server as a part of one of ours. Different ones stay different. */
function keyOf(name: string): string {
  const plain = name.slice(0, LONGEST_KEY).replaceAll(/[^A-Za-z0-9_-]/g, '_');
  return plain === name && name !== '' ? name : `${plain}.${digestOf(name).slice(0, 12)}`;
}

/** What people answered; rejects until they have. The server does not learn why a person declines. */
export async function answersTo(
  questions: readonly ServerQuestion[],
  ask: NonNullable<ToolCallContext['askPeople']>,
): Promise<InputResponses> {
  const answers = questions.map(async ({ name, question }) => [name, await answerTo(question, ask)] as const);
  return Object.fromEntries(await Promise.all(answers));
}

async function answerTo(
  question: AskedQuestion,
  ask: NonNullable<ToolCallContext['askPeople']>,
): Promise<InputResponses[string]> {
  const answer = await ask(question);
  if (answer.type !== 'given') return { action: 'decline' };
  if (question.url !== undefined) return { action: 'accept' };
  if (isJsonObject(answer.value)) return { action: 'accept', content: answer.value };
  const fault = 'The answer has to be an object with the fields of the form.';
  await ask({ ...question, fault });
  throw new Error(fault);
}
